"""The help pages: complete, true and quick."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import click
import pytest

from ferryman.cli.lazy import LazyGroup
from ferryman.cli.numbers import Number, Whole
from ferryman.cli.program import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.commands import Ran


def _walk(group: LazyGroup, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command, str]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command, group.loads[name][1]
        if isinstance(command, LazyGroup):
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
    if isinstance(command, LazyGroup):
        return
    options = {name for parameter in command.params for name in parameter.opts}
    expected = {"--json", "--debug", "--database-url", "--schema"} - LEFT_OUT.get(" ".join(path), set())
    assert options >= expected


def test_the_version_is_that_of_the_package(run: Callable[..., Ran]) -> None:
    assert f"ferryman {version('ferryman')}\n" == run("--version").out


def test_asking_for_help_loads_neither_rich_nor_any_command() -> None:
    code = "import sys, ferryman.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert not [name for name in loaded if name.startswith("rich")]
    assert "ferryman.cli.commands" not in loaded


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
    assert isinstance(kind, (Whole, Number)), "every number has the type that has bounds"
    for outside in (int(kind.min) - 1, int(kind.max) + 1, 10**30):
        given = ["--", str(outside)] if isinstance(parameter, click.Argument) else [f"{parameter.opts[0]}={outside}"]
        ran = run(*path, *given)
        assert (ran.code, f"is not in the range {kind.min}<=x<={kind.max}" in ran.err) == (2, True), ran.err
    assert (
        f"{kind.min}<=x<={kind.max}" in "".join(run(*path, "--help").out.split())
        or parameter.param_type_name != "option"
    )
