"""Neighbours: what others do to the row of a job, or of its queue, while the job is settled."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style
from ferryman.queries.sweep import recover_jobs
from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.support.tables import Row

    Act = Callable[[Tables, Row], object]

LATER = datetime(2100, 1, 1, tzinfo=UTC)
SUCCESSOR = "later"
"""The task of jobs that take over a key. No worker has it."""
SWEPT_ERROR = "swept"
SWEPT_DELAY = 5000.0


class Effect(Enum):
    """What the neighbour's commit means for the job."""

    NONE = auto()
    DEDUPED = auto()
    CHANGED = auto()
    """It has another priority, and flags."""
    RETIRED = auto()
    """It ends with this run."""
    TAKEN = auto()
    """It is nobody's any more: whatever its worker says is refused."""


@dataclass(frozen=True)
class Neighbour:
    """Somebody who does something to a job that runs.

    holds: the settlement cannot be written while the neighbour's transaction is open
    wants_queue: it is about the queue of the job
    succeeds: it adds a job that takes over the key
    """

    name: str
    act: Act
    effect: Effect = Effect.NONE
    holds: bool = True
    wants_queue: bool = False
    succeeds: bool = False


@dataclass(frozen=True)
class Cell:
    """A job, with its neighbour."""

    neighbour: Neighbour
    commits: bool
    is_queued: bool
    number: int = 0

    @property
    def name(self) -> str:
        """What it is called where it is shown, and its key."""
        words = [self.neighbour.name, "commits" if self.commits else "rolls back", "queue" if self.is_queued else ""]
        return ", ".join(word for word in (*words, str(self.number or "")) if word)

    @property
    def queue(self) -> str | None:
        """Its named queue."""
        return f"queue of {self.name}" if self.is_queued else None

    @property
    def effect(self) -> Effect:
        """What the neighbour means for it."""
        return self.neighbour.effect if self.commits else Effect.NONE


def _add(mode: str) -> Act:
    return lambda tables, job: tables.add_job(
        SUCCESSOR, job_key=job["key"], job_key_mode=mode, payload={"is": "new"}, run_at=LATER
    )


def _remove(tables: Tables, job: Row) -> None:
    tables.remove_job(job["key"])


def _reschedule(tables: Tables, job: Row) -> None:
    assert tables.reschedule_jobs(job["id"], run_at=LATER, attempts=7) == []


def _complete(tables: Tables, job: Row) -> None:
    assert tables.complete_jobs(job["id"]) == []


def _fail(tables: Tables, job: Row) -> None:
    assert tables.permanently_fail_jobs(job["id"], reason="no more of this") == []


def _lock(tables: Tables, job: Row) -> None:
    tables.query("select from graphile_worker._private_jobs where id = %s for update", job["id"])


def _change(tables: Tables, job: Row) -> None:
    tables.query(
        """update graphile_worker._private_jobs set priority = 7, flags = '{"slow": true}' where id = %s""", job["id"]
    )


def _lock_queue(tables: Tables, job: Row) -> None:
    tables.query("select from graphile_worker._private_job_queues where id = %s for update", job["job_queue_id"])


def _change_queue(tables: Tables, job: Row) -> None:
    """Write a new version of the row, with nothing new in it."""
    tables.query(
        "update graphile_worker._private_job_queues set queue_name = queue_name where id = %s", job["job_queue_id"]
    )


def _sweep(tables: Tables, job: Row) -> None:
    """Take the job away, by the statement of a sweep."""
    [claimed] = tables.query(
        "select locked_by, (extract(epoch from locked_at) * 1000000)::bigint as token"
        " from graphile_worker._private_jobs where id = %s",
        job["id"],
    )
    decision = {
        "id": job["id"], "worker_id": claimed["locked_by"], "token": claimed["token"], "effect": "requeue",
        "delay": SWEPT_DELAY, "error": SWEPT_ERROR, "started": True, "decision": "requeue", "reason": "silent",
    }  # fmt: skip
    call = recover_jobs("sweeper", [decision])
    text = call.statement.text(SchemaName("graphile_worker"), Style.NUMBERED)
    rows: list[Any] = (
        psycopg.RawCursor(tables.connection).execute(text, call.statement.ordered(call.parameters)).fetchall()
    )
    assert len(rows) == 1


NOBODY = Neighbour("nobody", lambda _, __: None, holds=False)
ROW_LOCKED = Neighbour("row locked", _lock)
QUEUE_LOCKED = Neighbour("queue locked", _lock_queue, wants_queue=True)
NEIGHBOURS = (
    Neighbour("replace", _add("replace"), Effect.RETIRED, succeeds=True),
    Neighbour("preserve_run_at", _add("preserve_run_at"), Effect.RETIRED, succeeds=True),
    Neighbour("unsafe_dedupe", _add("unsafe_dedupe"), Effect.DEDUPED),
    Neighbour("remove_job", _remove, Effect.RETIRED),
    Neighbour("reschedule_jobs", _reschedule, holds=False),
    Neighbour("complete_jobs", _complete, holds=False),
    Neighbour("permanently_fail_jobs", _fail, holds=False),
    ROW_LOCKED,
    Neighbour("row changed", _change, Effect.CHANGED),
    QUEUE_LOCKED,
    Neighbour("queue changed", _change_queue, wants_queue=True),
    Neighbour("sweep", _sweep, Effect.TAKEN),
)


def all_cells(*, with_rollbacks: bool = True) -> list[Cell]:
    """Every neighbour, with and without a queue; last come those without a neighbour."""
    return [
        *(
            Cell(neighbour, commits, is_queued)
            for neighbour in NEIGHBOURS
            for commits in ((True, False) if with_rollbacks and neighbour.holds else (True,))
            for is_queued in (False, True)
            if is_queued or not neighbour.wants_queue
        ),
        *(Cell(NOBODY, commits=True, is_queued=is_queued) for is_queued in (False, True)),
    ]


@contextmanager
def neighbours_of(jobs: Mapping[Cell, Row], dsn: str) -> Iterator[None]:
    """Every neighbour has done what it does. Their transactions are open until the block ends."""
    with psycopg.connect(dsn) as undone, psycopg.connect(dsn) as committing:
        for cell, job in jobs.items():
            cell.neighbour.act(Tables(committing if cell.commits else undone), job)
        yield
        undone.rollback()
