"""The commands `ferryman migrate` and `ferryman schema …`, which install, show, upgrade and remove the schema."""

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
    "installed": "Installed the schema: revision {revision} of Graphile Worker, extension {extensions} of Ferryman.",
    "adopted": "Adopted the schema at revision {revision} of Graphile Worker: its tables and functions were not "
    "changed, and Ferryman's extensions 1 to {extensions} were added.",
    "nothing": "Nothing to do: the schema has revision {revision} of Graphile Worker and extension {extensions} of "
    "Ferryman.",
}
UPGRADE_WARNING = (
    "Workers of graphile-worker 0.16 on this schema will stop and cannot start on it again; this cannot be undone. "
    "Newer Node workers, Rust workers and Ferryman continue."
)
UNINSTALL_WARNING = (
    "Ferryman's own tables and functions will be dropped, with all records in them; jobs stay. Stop all Ferryman "
    "workers first."
)
NOTHING_DROPPED = "Nothing to do: none of Ferryman's own objects is installed."
GIVE_WAY_WARNING = (
    "Ferryman's table of workers and its functions will be dropped, so that a Rust worker can create its own; jobs "
    "stay. Until it has, Ferryman's workers do not start on this schema."
)
_MAJOR = 10_000


@click.command()
@database_command
def migrate(client: SyncClient) -> Report:
    """Install the schema, or adopt one that Node or Rust installed.

    An adopted schema keeps its tables and functions unchanged; Ferryman adds its own objects. You can run this again,
    and from many machines at once.

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
    """Show what is installed, and whether Ferryman can use it.

    Exit code 0: Ferryman can use the schema. 1: it is missing, or must be changed first.

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
    """The lines that people read: what the schema holds, then whether Ferryman can use it, and advice."""
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
    """Upgrade the schema to revision 20 of Graphile Worker.

    Ferryman never does this by itself, because revision 19 is breaking: workers of graphile-worker 0.16 stop. A schema
    that the Rust worker has migrated is not changed.

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
        lines.append("Repaired add_job and add_jobs: they no longer lose a keyed job under load.")
    if done.note is not None:
        lines.append(f"Nothing was changed: {done.note}")
    return lines or [f"Nothing to do: the schema is at revision {done.revision_after}."]


@click.command()
@yes_option
@database_command
def uninstall_extensions(client: SyncClient, *, yes: bool) -> Report:
    """Drop Ferryman's own objects, and keep Graphile Worker's.

    Jobs stay, and Node and Rust workers continue. `ferryman migrate` adds the objects again.

    \b
    Example:
      ferryman schema uninstall-extensions --yes
    """
    confirm(UNINSTALL_WARNING, "Drop them?", yes=yes)
    done = client.uninstall_extensions()
    line = f"Dropped: {', '.join(done.dropped)}." if done.dropped else NOTHING_DROPPED
    return Report({"dropped": done.dropped}, [line])


@click.command()
@click.option(
    "--force", is_flag=True, help="Go ahead even if workers are registered. The jobs that they are running run again."
)
@yes_option
@database_command
def give_way(client: SyncClient, *, force: bool, yes: bool) -> Report:
    """Make room for a Rust worker to migrate a schema of Node 0.16 or 0.17.

    At revisions below 20 a Rust worker creates its table of workers and its recovery functions itself, and fails if
    Ferryman has created them already. This drops Ferryman's copies. Stop Ferryman's workers, run this, start the Rust
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
        "Start the Rust worker now, and Ferryman's workers after it. `ferryman migrate` undoes this.",
    ]
    return Report(document, lines)
