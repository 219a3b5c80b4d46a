"""What the documentation promises about a job whose row others work on, and whether it was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.settling.endings import MAX_ATTEMPTS
from tests.settling.neighbours import LATER, SWEPT_DELAY, SWEPT_ERROR, Effect
from tests.support.workers import jobs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tests.settling.endings import Ending
    from tests.settling.neighbours import Cell
    from tests.support.tables import Row, Tables

AS_IT_WAS = "as it was"
MARK = "ferryman:superseded"
SUPERSEDED_ERROR = "Superseded: its key was used again or removed while it was claimed"


class Left(NamedTuple):
    """What is left of a job."""

    row: Mapping[str, Any] | None
    """Its own row."""
    successor: Mapping[str, Any] | None
    """The job that has its key now."""
    events: tuple[str, ...]
    """What hooks heard of it."""


def promised(ending: Ending, cell: Cell) -> Left:
    """The outcome is stored, whoever else was there, unless the claim was lost."""
    if cell.effect is Effect.TAKEN:
        due = pytest.approx(SWEPT_DELAY, abs=60)
        swept = _row(attempts=0, last_error=SWEPT_ERROR, due=due, key=cell.name, payload={"cell": cell.name})
        return Left(swept, None, ("SettleRefused",))
    successor = {"attempts": 0, "run_at": LATER} if cell.effect is Effect.RETIRED and cell.neighbour.succeeds else None
    if ending.completes:
        return Left(None, successor, ending.events)
    if cell.effect is Effect.RETIRED:
        events = ending.events if ending.last_events is None else ending.last_events
        error = ending.last_error or SUPERSEDED_ERROR
        row = _row(attempts=MAX_ATTEMPTS, last_error=error, is_superseded=True)
        return Left(row, successor, events)
    row = _row(
        attempts=ending.attempts,
        last_error=ending.last_error,
        due=AS_IT_WAS if ending.delay is None else pytest.approx(ending.delay, abs=60),
        key=cell.name,
        payload=dict(ending.payload) or {"cell": cell.name},
    )
    if cell.effect is Effect.DEDUPED:
        row["revision"] = 1
    if cell.effect is Effect.CHANGED:
        row |= {"priority": 7, "flags": {"slow": True}}
    return Left(row, None, ending.events)


def check(
    tables: Tables,
    before: Mapping[Cell, Row],
    wanted: Mapping[Cell, Left],
    *,
    events: Mapping[int, Sequence[str]],
    may_be_locked: Collection[str] = (),
) -> None:
    """Fail with every difference between what is left of jobs and what should be, and with all that is locked.

    before: the rows of the jobs when they were added
    events: what hooks heard, by job
    may_be_locked: names of cells
    """
    rows = {row.id: row for row in jobs(tables.connection)}
    successors = {row.key: row for row in rows.values() if row.payload == {"is": "new"}}
    left = {
        cell: Left(
            _described(rows.get(job["id"]), job),
            _succeeding(successors.get(cell.name)),
            tuple(events.get(job["id"], ())),
        )
        for cell, job in before.items()
    }
    broken = [
        f"{cell.name}: {name} is {found}, and should be {right}"
        for cell, promise in wanted.items()
        for name, found, right in _differences(left[cell], promise)
    ]
    broken += [f"{kind} {name!r} is locked" for kind, name in _locked(tables) if name not in may_be_locked]
    assert not broken, "\n".join(["", *broken])


def _row(**given: Any) -> dict[str, Any]:
    return {"revision": 0, "priority": 0, "flags": None, "is_superseded": False, "is_locked": False, **given}


def _described(row: Any, before: Row) -> Mapping[str, Any] | None:
    """What is promised about a row. If the job will not run again, it does not matter when and with what."""
    if row is None:
        return None
    described = _row(
        attempts=row.attempts,
        last_error=None if row.last_error is None else row.last_error.partition("\n")[0],
        revision=row.revision,
        priority=row.priority,
        flags={name: value for name, value in (row.flags or {}).items() if name != MARK} or None,
        is_superseded=MARK in (row.flags or {}),
        is_locked=row.locked_by is not None,
    )
    if row.key is not None:
        due = AS_IT_WAS if row.run_at == before["run_at"] else row.due_in
        described |= {"due": due, "key": row.key, "payload": row.payload}
    return described


def _succeeding(row: Any) -> Mapping[str, Any] | None:
    return None if row is None else {"attempts": row.attempts, "run_at": row.run_at}


def _differences(left: Left, wanted: Left) -> Iterator[tuple[str, object, object]]:
    """What differs, by name: fields of the row if there is one as there should be, or the row itself."""
    for name in ("successor", "events"):
        if getattr(left, name) != getattr(wanted, name):
            yield name, getattr(left, name), getattr(wanted, name)
    if left.row is None or wanted.row is None:
        if left.row != wanted.row:
            yield "row", left.row, wanted.row
        return
    for name in {**left.row, **wanted.row}:
        if left.row.get(name) != wanted.row.get(name):
            yield name, left.row.get(name), wanted.row.get(name)


def _locked(tables: Tables) -> list[tuple[str, str]]:
    """Every job and queue that is locked, with the name of its cell; but for jobs that keep slots busy."""
    rows = tables.query(
        """
        select 'job' as kind, coalesce(job.payload->>'cell', 'number ' || job.id) as name
        from graphile_worker._private_jobs as job
        join graphile_worker._private_tasks as task on task.id = job.task_id
        where task.identifier <> 'block' and (locked_by is not null or locked_at is not null)
        union all
        select 'queue', replace(queue_name, 'queue of ', '')
        from graphile_worker._private_job_queues
        where locked_by is not null or locked_at is not null
        """
    )
    return [(row["kind"], row["name"]) for row in rows]
