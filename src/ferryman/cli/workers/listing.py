"""`ferryman workers list`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ferryman.cli.clean import clean_line
from ferryman.cli.commands import rows_command
from ferryman.cli.tables import text_or_dash, timestamp
from ferryman.cli.times import span
from ferryman.cli.workers.rows import counted, plain_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from ferryman import ActiveWorker, LostWorker, SyncClient


@dataclass(frozen=True, slots=True)
class WorkersReport:
    """Workers that are registered, and those that were lost."""

    active: Sequence[ActiveWorker]
    lost: Sequence[LostWorker]
    exit_code: int = 0

    def document(self) -> object:
        """Every field of each."""
        return {
            "active": [_plain(asdict(worker)) for worker in self.active],
            "lost": [_plain(asdict(worker)) for worker in self.lost],
        }

    def lines(self) -> Iterator[RenderableType]:
        """A table of each kind."""
        yield (
            plain_table([_active_cells(worker) for worker in self.active])
            if self.active
            else ("No worker is registered: none runs, or recovery is off, or they are Node's.")
        )
        if self.lost:
            yield Text("\nlost workers, newest first", "bold")
            yield plain_table([_lost_cells(worker) for worker in self.lost])


def _active_cells(worker: ActiveWorker) -> Mapping[str, str | Text]:
    tasks = worker.metadata.get("tasks")
    return {
        "worker": clean_line(worker.worker_id),
        "state": _state(worker),
        "last sign of life": timestamp(worker.last_heartbeat_at),
        "started at": timestamp(worker.started_at),
        "place": _place(worker.metadata),
        "tasks": str(len(tasks)) if isinstance(tasks, list) else "-",
    }


def _state(worker: ActiveWorker) -> Text:
    if worker.is_session_lost:
        return Text("session lost", "red")
    return Text("stale", "red") if worker.is_stale else Text("alive", "green")


def _lost_cells(worker: LostWorker) -> Mapping[str, str | Text]:
    return {
        "worker": clean_line(worker.worker_id),
        "reason": clean_line(worker.reason),
        "noticed at": timestamp(worker.noticed_at),
        "last sign of life": timestamp(worker.last_heartbeat_at),
        "place": _place(worker.metadata),
        "recovered": counted(worker.recovered_jobs, "job"),
    }


def _place(metadata: Mapping[str, Any]) -> str:
    """The host and the process, as far as the worker told."""
    told = [str(metadata[name]) for name in ("host", "pid") if metadata.get(name) is not None]
    return text_or_dash(" ".join(told))


def _plain(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in fields.items()}


@click.command("list")
@click.option(
    "--threshold",
    type=span,
    default="5m",
    show_default=True,
    metavar="SPAN",
    help="Stale is a worker without a sign of life for longer.",
)
@rows_command
def list_workers(client: SyncClient, *, threshold: timedelta) -> WorkersReport:
    """List workers, and those that were lost.

    Only workers that use recovery register: those of Ferryman unless it was turned off, and those of Rust if it was
    turned on. A worker whose session is lost was killed, or lost its connection a moment ago. Times are in UTC.

    \b
    Example:
      ferryman workers list --threshold 90s
    """
    return WorkersReport(client.list_active_workers(threshold), client.list_lost_workers())
