"""Every option, command, error, event and method is on its page; options with the default that they have."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from ferryman import Client, JobSpec, JobState, WorkerContext, WorkerOptions, WorkerShutdownConfig, errors, hooks
from ferryman.cli.program import program
from ferryman.recovery.config import RecoverySettings
from ferryman.tasks.decorator import TaskDecorator
from ferryman.worker import LocalQueueConfig, RefetchDelayConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
SHORT_FOR = {
    "listen_os_shutdown_signals": WorkerShutdownConfig.__dataclass_fields__["listen_os_shutdown_signals"],
    "shutdown_signal": WorkerShutdownConfig.__dataclass_fields__["shutdown_signal"],
    "shutdown_grace_period": WorkerShutdownConfig.__dataclass_fields__["grace_period"],
    "shutdown_interrupted_job_retry_delay": WorkerShutdownConfig.__dataclass_fields__["interrupted_job_retry_delay"],
    **RecoverySettings.__dataclass_fields__,
}
"""Options that stand for a field of another object have the default of that field."""

TASK_PARAMETERS = inspect.signature(TaskDecorator.__call__).parameters
NAMES = [
    *((name, "worker.md") for name in inspect.signature(WorkerOptions).parameters),
    *((each.name, "shutdown.md") for each in fields(WorkerShutdownConfig)),
    *((each.name, "local-queue.md") for each in (*fields(LocalQueueConfig), *fields(RefetchDelayConfig))),
    *((each.name, "recovery.md") for each in fields(RecoverySettings)),
    *((name, "adding-jobs.md") for name in inspect.signature(JobSpec).parameters),
    *((name, "tasks.md") for name, each in TASK_PARAMETERS.items() if each.kind is each.KEYWORD_ONLY),
    *((name, "tasks.md") for name in dir(WorkerContext) if not name.startswith("_")),
]


def first_cells(page: str) -> str:
    """The first cell of each row of each table; what it names is what the row describes."""
    return "\n".join(re.findall(r"^\|([^|\n]*)\|", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_every_table_has_a_heading(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert [rows for rows in tables if not re.match(r"\|[ :|-]+\|$", rows.splitlines()[1 % rows.count("\n")])] == []


@pytest.mark.parametrize(("name", "page"), NAMES, ids=str)
def test_every_name_has_its_row(name: str, page: str) -> None:
    assert re.search(rf"`{name}\b", first_cells(page)), f"{name} is in no table of docs/{page}"


def plain_defaults() -> Iterator[tuple[str, str, Any]]:
    """Each option whose default is a plain value, not something that is worked out."""
    known = {each.name: each for each in fields(WorkerOptions)} | SHORT_FOR
    described: list[tuple[str, str, Field[Any]]] = [
        *(("worker.md", name, known[name]) for name in inspect.signature(WorkerOptions).parameters),
        *(("shutdown.md", each.name, each) for each in fields(WorkerShutdownConfig)),
        *(("local-queue.md", each.name, each) for each in fields(LocalQueueConfig)),
        *(("recovery.md", each.name, each) for each in fields(RecoverySettings)),
    ]
    for page, name, found in described:
        if found.default is not MISSING:
            yield page, name, found.default


def spellings(value: Any) -> set[str]:
    """How a page may write a value."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        sizes = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "days": 86400}
        return {f"{seconds / size:g} {unit}" for unit, size in sizes.items()}
    if value is None or value == ():
        return {"none"}
    if isinstance(value, bool):
        return {f"`{value}`"}
    if isinstance(value, str):
        return {f'`"{value}"`'}
    return {str(value)} if isinstance(value, (int, float)) else {f'`("{value[0]}",)`'}


@pytest.mark.parametrize(("page", "name", "default"), [*plain_defaults()], ids=str)
def test_the_default_of_a_row_is_the_one_in_force(page: str, name: str, default: Any) -> None:
    rows = re.findall(rf"^\| `{name}` \|(.*)\|$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    cells = {cell.strip() for row in rows for cell in row.split("|")}
    assert spellings(default) & cells, f"docs/{page} does not say that {name} is {default!r}"


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name


@pytest.mark.parametrize("command", [*commands(program)])
def test_every_command_is_on_the_page_of_the_command_line(command: str) -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"(ferryman |`|, `){command}\b", page), f"ferryman {command} is not in docs/cli.md"


def public_errors() -> list[str]:
    return [name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)]


@pytest.mark.parametrize("name", public_errors())
def test_every_error_is_on_the_page_of_errors(name: str) -> None:
    assert f"`{name}`" in (DOCS / "errors.md").read_text(encoding="utf-8")


def events() -> list[str]:
    known = (getattr(hooks, name) for name in hooks.__all__)
    kinds = (hooks.Observer, hooks.Interceptor)
    return [each.__name__ for each in known if isinstance(each, type) and issubclass(each, kinds) and each not in kinds]


@pytest.mark.parametrize("event", events())
def test_every_event_has_its_row_on_the_page_of_hooks(event: str) -> None:
    assert f"`{event}`" in first_cells("hooks.md")


@pytest.mark.parametrize("name", [name for name in dir(Client) if not name.startswith("_")])
def test_every_method_of_a_client_is_on_some_page(name: str) -> None:
    pages = (page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    assert name in {"pool", "schema"} or any(re.search(rf"\b{name}\b", page) for page in pages)


def test_the_picture_of_the_concepts_has_every_state_of_a_job_and_no_other() -> None:
    page = (DOCS / "concepts.md").read_text(encoding="utf-8")
    picture = re.search(r"```mermaid\nstateDiagram-v2\n(.*?)```", page, re.DOTALL)[1]  # type: ignore[index]
    outer = re.sub(r" as running \{.*?\n    \}\n", "\n", picture, flags=re.DOTALL)
    named = {name for pair in re.findall(r"\b(\w+) -->|--> (\w+):", outer) for name in pair if name}
    assert named == {state.value for state in JobState}


LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def logged_events() -> Iterator[str]:
    """The event of each line that the product logs; fails for a line without one."""
    for path in (DOCS.parent / "src").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id="logger" | "log") | ast.Attribute(attr="logger" | "_logger" | "log" | "_log"),
                        attr=level,
                    )
                    | ast.Name(id="log_with_traceback" as level)
                ) if level in {*LEVELS, "log_with_traceback"}:
                    extra = next((ast.unparse(each.value) for each in call.keywords if each.arg == "extra"), "")
                    event = re.search(r"(?:'event': |_fields\()'(\w+)'", extra)
                    assert event is not None, f"{path.name}:{call.lineno} logs no event"
                    yield event[1]


def test_every_event_of_the_logs_has_its_row_and_every_row_its_event() -> None:
    assert set(re.findall(r"`(\w+)`", first_cells("logs.md"))) == {*logged_events()}
