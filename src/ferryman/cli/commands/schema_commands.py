"""`ferryman migrate` and `ferryman schema …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ferryman.cli.common_options import confirm, database_command, yes_option
from ferryman.cli.output import Report, facts_lines
from ferryman.cli.sanitize import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType

    from ferryman import SyncClient
    from ferryman.schema import Migration, SchemaStatus, Upgrade

MIGRATED = {
    "installed": "Installed the schema at revision {revision} of Graphile Worker, with extension {extensions} of ours.",
    "adopted": "Adopted the schema at revision {revision} of Graphile Worker: its tables and functions were not "
    "touched, and our extensions 1 to {extensions} are beside them.",
    "nothing": "Nothing to do: revision {revision} of Graphile Worker and extension {extensions} of ours are there.",
}
UPGRADE_WARNING = (
    "Workers of graphile-worker 0.16 on this schema will be told to stop and will not start on it again; there is no "
    "way back. Newer Node workers, Rust workers and Ferryman go on."
)
UNINSTALL_WARNING = (
    "Ferryman's own tables and functions will be dropped, and what they recorded with them; jobs stay. Stop all "
    "Ferryman workers first."
)
NOTHING_DROPPED = "Nothing to do: none of Ferryman's own objects is installed."
GIVE_WAY_WARNING = (
    "Ferryman's table of workers and its functions will be dropped, for a Rust worker to make its own; jobs stay. "
    "Until it has, Ferryman's workers do not start on this schema."
)
_MAJOR = 10_000


@click.command()
@database_command
def migrate(client: SyncClient) -> Report:
    """Install the schema, or adopt one that Node or Rust installed.

    Tables and functions of an adopted schema are not changed; Ferryman's own objects are put beside them. Running it
    again, or from many machines at once, does no harm.

    \b
    Example:
      ferryman migrate --database-url postgresql://me@localhost/app
    """
    done = client.migrate()
    document = {
        "outcome": done.outcome.value,
        "revision": done.revision,
        "extensions_before": done.extensions_before,
        "extensions_after": done.extensions_after,
        "warnings": done.warnings,
        "notices": done.notices,
    }
    return Report(document, _migration_lines(done))


def _migration_lines(done: Migration) -> Iterator[str]:
    yield MIGRATED[done.outcome.value].format(revision=done.revision, extensions=done.extensions_after)
    yield from (f"Warning: {warning}" for warning in done.warnings)
    yield from (f"Note: {notice}" for notice in done.notices)


@click.command()
@database_command
def status(client: SyncClient) -> Report:
    """Say what is installed, and whether Ferryman can use it.

    Exit code 0: the schema can be used. 1: it is missing, or cannot be used as it is.

    \b
    Example:
      ferryman schema status || ferryman migrate
    """
    found = client.schema_status()
    facts = {
        "schema": found.schema,
        "usable": found.compatible,
        "layout": found.layout.value,
        "revision": found.revision,
        "highest_breaking": found.highest_breaking,
        "extension_revision": found.extension_revision,
        "extension_latest": found.extension_latest,
        "functions_repaired": found.functions_repaired,
        "server_version": f"{found.server_version // _MAJOR}.{found.server_version % _MAJOR}",
    }
    document = {**facts, "reason": found.reason, "warnings": found.warnings}
    return Report(document, _status_lines(found, facts), exit_code=0 if found.compatible else 1)


def _status_lines(found: SchemaStatus, facts: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The facts, then the verdict and the advice."""
    yield facts_lines({name.replace("_", " "): _fact(value) for name, value in facts.items()})
    for line in (found.reason, *found.warnings, *_status_advice(found)):
        if line is not None:
            yield f"\n{line}"


def _fact(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return clean_line(str(value))


def _status_advice(found: SchemaStatus) -> Iterator[str]:
    if not found.compatible:
        return
    if (found.extension_revision or 0) < found.extension_latest:
        yield "Some of Ferryman's own objects are missing; `ferryman migrate` adds them."
    if not found.functions_repaired and found.layout.value == "graphile":
        yield "add_job and add_jobs can lose a keyed job under load; `ferryman schema upgrade` repairs them."


@click.command()
@yes_option
@database_command
def upgrade(client: SyncClient, *, yes: bool) -> Report:
    """Take the schema to revision 20 of Graphile Worker.

    This is never done unasked. Revision 19 is breaking: workers of graphile-worker 0.16 stop. A schema that the Rust
    system has migrated is left as it is.

    \b
    Example:
      ferryman schema upgrade --yes
    """
    confirm(UPGRADE_WARNING, "Upgrade?", yes=yes)
    done = client.upgrade_schema()
    document = {
        "revision_before": done.revision_before,
        "revision_after": done.revision_after,
        "functions_repaired": done.functions_repaired,
        "note": done.note,
    }
    return Report(document, _upgrade_lines(done))


def _upgrade_lines(done: Upgrade) -> list[str]:
    lines = []
    if done.revision_after != done.revision_before:
        lines.append(f"Upgraded the schema from revision {done.revision_before} to {done.revision_after}.")
    if done.functions_repaired:
        lines.append("add_job and add_jobs have been replaced by bodies that never lose a keyed job.")
    if done.note is not None:
        lines.append(f"Nothing was changed: {done.note}")
    return lines or [f"Nothing to do: the schema is at revision {done.revision_after}."]


@click.command()
@yes_option
@database_command
def uninstall_extensions(client: SyncClient, *, yes: bool) -> Report:
    """Drop Ferryman's own objects, and leave Graphile's as they are.

    Jobs stay, and Node and Rust workers go on. `ferryman migrate` puts the objects back.

    \b
    Example:
      ferryman schema uninstall-extensions --yes
    """
    confirm(UNINSTALL_WARNING, "Drop them?", yes=yes)
    done = client.uninstall_extensions()
    line = f"Dropped: {', '.join(done.dropped)}." if done.dropped else NOTHING_DROPPED
    return Report({"dropped": done.dropped}, [line])


@click.command()
@click.option("--force", is_flag=True, help="Do it although workers are registered. What they are running runs again.")
@yes_option
@database_command
def give_way(client: SyncClient, *, force: bool, yes: bool) -> Report:
    """Let a Rust worker migrate a schema of Node 0.16 or 0.17.

    At revisions below 20 a Rust worker makes its table of workers and its recovery functions itself, and fails where
    Ferryman has made them already. This drops Ferryman's copies. Stop Ferryman's workers, run this, start the Rust
    worker, and start Ferryman's workers again.

    \b
    Example:
      ferryman schema give-way --yes
    """
    confirm(GIVE_WAY_WARNING, "Give way?", yes=yes)
    done = client.give_way(force=force)
    document = {"dropped": done.dropped, "note": done.note}
    if done.note is not None:
        return Report(document, [f"Nothing to do: {done.note}"])
    lines = [
        f"Dropped: {', '.join(done.dropped)}.",
        "Start the Rust worker now, and Ferryman's workers after it. `ferryman migrate` takes this back.",
    ]
    return Report(document, lines)
