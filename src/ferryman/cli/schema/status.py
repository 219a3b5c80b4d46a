"""`ferryman schema status`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ferryman.cli.clean import clean_line
from ferryman.cli.commands import database_command
from ferryman.cli.tables import facts_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from ferryman import SyncClient
    from ferryman.schema import SchemaStatus

_MAJOR = 10_000


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What is installed."""

    status: SchemaStatus

    @property
    def exit_code(self) -> int:
        """0 when the schema can be used as it is."""
        return 0 if self.status.compatible else 1

    def document(self) -> dict[str, Any]:
        """Every fact, and the verdict."""
        status = self.status
        return {
            "schema": status.schema,
            "usable": status.compatible,
            "reason": status.reason,
            "layout": status.layout.value,
            "revision": status.revision,
            "highest_breaking": status.highest_breaking,
            "extension_revision": status.extension_revision,
            "extension_latest": status.extension_latest,
            "functions_repaired": status.functions_repaired,
            "server_version": f"{status.server_version // _MAJOR}.{status.server_version % _MAJOR}",
            "warnings": status.warnings,
        }

    def lines(self) -> Iterator[RenderableType]:
        """The facts, then the verdict."""
        facts = self.document()
        reason, warnings = facts.pop("reason"), facts.pop("warnings")
        yield facts_lines({name.replace("_", " "): _worded(value) for name, value in facts.items()})
        for line in (reason, *warnings, *self._advice()):
            if line is not None:
                yield f"\n{line}"

    def _advice(self) -> Iterator[str]:
        status = self.status
        if not status.compatible:
            return
        if (status.extension_revision or 0) < status.extension_latest:
            yield "Some of Ferryman's own objects are missing; `ferryman migrate` adds them."
        if not status.functions_repaired and status.layout.value == "graphile":
            yield "add_job and add_jobs can lose a keyed job under load; `ferryman schema upgrade` repairs them."


def _worded(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return clean_line(str(value))


@click.command()
@database_command
def status(client: SyncClient) -> StatusReport:
    """Say what is installed, and whether Ferryman can use it.

    Exit code 0: the schema can be used. 1: it is missing, or cannot be used as it is.

    \b
    Example:
      ferryman schema status || ferryman migrate
    """
    return StatusReport(client.schema_status())
