"""The help pages: complete, true and quick."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import click
import pytest

from ferryman.cli.arguments import Number, WholeNumber
from ferryman.cli.program import CommandGroup, program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.commands import Ran


def _walk(group: CommandGroup, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command, str]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command, group.summary(name)
        if isinstance(command, CommandGroup):
            yield from _walk(command, *path, name)


LEFT_OUT = {
    "postgres": {"--database-url", "--schema"},
    "new": {"--database-url", "--schema"},
    "cron check": {"--database-url", "--schema"},
    "cron next": {"--database-url", "--schema"},
    "dev": {"--database-url", "--json"},  # it has a database of its own
    "worker": {"--json"},  # it reports by its log, and has --log-format
}
COMMANDS = [pytest.param(*found, id=" ".join(found[0])) for found in _walk(program)]


@pytest.mark.parametrize(("path", "command", "line"), COMMANDS)
def test_each_command_explains_itself_with_an_example(
    run: Callable[..., Ran], path: tuple[str, ...], command: click.Command, line: str
) -> None:
    ran = run(*path, "--help")

    assert ran.code == 0
    assert f"Example:\n    ferryman {' '.join(path[:1])}" in ran.out


@pytest.mark.parametrize(("path", "command", "line"), COMMANDS)
def test_the_line_in_the_list_of_commands_is_the_first_of_the_command_itself(
    path: tuple[str, ...], command: click.Command, line: str
) -> None:
    assert str(command.help).splitlines()[0] == line


@pytest.mark.parametrize(("path", "command", "line"), COMMANDS)
def test_each_option_says_what_it_is_for(path: tuple[str, ...], command: click.Command, line: str) -> None:
    options = [each for each in command.params if isinstance(each, click.Option)]

    assert [each.name for each in options if not re.sub(r"\[.*?\]", "", each.help or "").strip()] == []


@pytest.mark.parametrize(("path", "command", "line"), COMMANDS)
def test_each_command_takes_the_common_options(path: tuple[str, ...], command: click.Command, line: str) -> None:
    if isinstance(command, CommandGroup):
        return
    options = {name for parameter in command.params for name in parameter.opts}
    expected = {"--json", "--debug", "--database-url", "--schema"} - LEFT_OUT.get(" ".join(path), set())
    assert options >= expected


def test_a_python_without_docstrings_shows_the_options_alone() -> None:
    """`python -OO` has removed the texts."""
    command = [sys.executable, "-OO", "-m", "ferryman", "workers", "unlock", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert shown.startswith("Usage: ferryman workers unlock [OPTIONS] WORKER_ID...\n\nOptions:\n")


def test_the_version_is_that_of_the_package(run: Callable[..., Ran]) -> None:
    assert f"ferryman {version('ferryman')}\n" == run("--version").out


def _loaded(*arguments: str, **variables: str) -> tuple[str, list[str]]:
    """Return what the command prints, and the modules that it has loaded when it exits."""
    code = "import atexit, sys, ferryman.cli; atexit.register(lambda: print(*sys.modules)); ferryman.cli.main()"
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", code, *arguments]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    *lines, modules = shown.splitlines()
    return "\n".join(lines), modules.split()


def _is_light(loaded: Sequence[str]) -> bool:
    """True if neither rich nor any command was loaded."""
    commands = ("rich", "ferryman.cli.commands", "ferryman.cli.worker", "ferryman.cli.bench", "ferryman.client")
    return "ferryman.cli.program" in loaded and not [name for name in loaded if name.startswith(commands)]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--help"], "jobs      Add, show and change jobs."),
        ([], "jobs      Add, show and change jobs."),
        (["jobs", "--help"], "list        List jobs, oldest first."),
        (["--version"], "ferryman "),
    ],
)
def test_asking_for_help_loads_neither_rich_nor_any_command(arguments: list[str], line: str) -> None:
    shown, loaded = _loaded(*arguments)

    assert line in shown
    assert _is_light(loaded)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("ferryman ", {"migrate", "jobs", "worker", "bench"}),
        ("ferryman jo", {"jobs"}),
        ("ferryman jobs ", {"add", "list", "retry"}),
        ("ferryman jbos ", set[str]()),
    ],
)
def test_completing_the_name_of_a_command_loads_neither_rich_nor_any_command(words: str, names: set[str]) -> None:
    position = str(len(words.split(" ")) - 1)
    variables = {"_FERRYMAN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": position}
    shown, loaded = _loaded(**variables)

    assert names <= {line.removeprefix("plain,") for line in shown.splitlines()}
    assert _is_light(loaded)


def test_completing_finds_the_options_of_a_command() -> None:
    variables = {"_FERRYMAN_COMPLETE": "bash_complete", "COMP_WORDS": "ferryman jobs list --st", "COMP_CWORD": "3"}

    assert _loaded(**variables)[0] == "plain,--state"


@pytest.mark.parametrize("path", [[], ["jobs"], ["schema"]])
def test_a_group_alone_shows_its_help(run: Callable[..., Ran], path: list[str]) -> None:
    ran = run(*path)

    assert (0, run(*path, "--help").out) == (ran.code, ran.out)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["wroker", "tasks"], "there is no command 'wroker'. Did you mean 'worker'?"),
        (["jobs", "lits"], "there is no command 'lits'. Did you mean 'list'?"),
        (["jobs", "frobnicate"], "there is no command 'frobnicate'. The commands are: add, list, show"),
    ],
)
def test_a_misspelled_command_is_answered_with_the_likely_one_or_those_there_are(
    run: Callable[..., Ran], command: list[str], told: str
) -> None:
    ran = run(*command)

    assert ran.code == 2
    assert told in ran.err
    assert "More: ferryman" in ran.err


def _numbers() -> Iterator[object]:
    for path, command, _ in _walk(program):
        for parameter in command.params:
            if isinstance(parameter.type, (click.types.IntParamType, click.types.FloatParamType)):
                yield pytest.param(path, parameter, id=f"{' '.join(path)} {parameter.opts[0]}")


@pytest.mark.parametrize(("path", "parameter"), [*_numbers()])
def test_each_number_has_bounds_and_says_them(
    run: Callable[..., Ran], path: tuple[str, ...], parameter: click.Parameter
) -> None:
    kind = parameter.type
    assert isinstance(kind, (WholeNumber, Number)), "every number has the type that has bounds"
    for outside in (int(kind.min) - 1, int(kind.max) + 1, 10**30):
        given = ["--", str(outside)] if isinstance(parameter, click.Argument) else [f"{parameter.opts[0]}={outside}"]
        ran = run(*path, *given)
        assert (ran.code, f"is not in the range {kind.min}<=x<={kind.max}" in ran.err) == (2, True), ran.err
    assert (
        f"{kind.min}<=x<={kind.max}" in "".join(run(*path, "--help").out.split())
        or parameter.param_type_name != "option"
    )
