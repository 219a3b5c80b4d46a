"""Waiting for facts instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

DEADLINE_SECONDS = 100.0
"""On the busiest machine, whatever happens has happened by then."""
SHORTEST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.05


async def until(is_true: Callable[[], Any], what: str, *, within: float | None = None) -> Any:
    """The first answer that is true; fail with `what` when none ever is."""
    pauses = _pauses(what, within)
    while not (answer := is_true()):  # noqa: ASYNC110 - facts outside of this process ring no bell
        await asyncio.sleep(next(pauses))
    return answer


def until_blocking(is_true: Callable[[], Any], what: str, *, within: float | None = None) -> Any:
    """The same for tests without an event loop."""
    pauses = _pauses(what, within)
    while not (answer := is_true()):
        time.sleep(next(pauses))
    return answer


def _pauses(what: str, within: float | None) -> Iterator[float]:
    """Ever longer ones, so that who waits for long leaves the machine to those who work."""
    begun = time.monotonic()
    limit = DEADLINE_SECONDS if within is None else within
    while (waited := time.monotonic() - begun) < limit:
        yield min(LONGEST_PAUSE_SECONDS, SHORTEST_PAUSE_SECONDS + waited / 20)
    raise AssertionError(f"never happened: {what}")


_WAITS = "datname = current_database() and wait_event_type = 'Lock' and wait_event <> 'object'"
"""Not for an object: a commit that announces something locks one for all databases, and may wait for strangers."""


def waiting_for_locks(observer: psycopg.Connection) -> int:
    """How many sessions of the observer's database wait for a lock right now."""
    return len(observer.execute(f"select from pg_stat_activity where {_WAITS}").fetchall())


def somebody_waits_for_a_lock(observer: psycopg.Connection) -> bool:
    """Whether a session of the observer's database is waiting for a lock right now."""
    return waiting_for_locks(observer) > 0


def until_somebody_waits(observer: psycopg.Connection, least: int = 1) -> None:
    """Come back when that many sessions of this database wait for a lock."""
    until_blocking(lambda: waiting_for_locks(observer) >= least, "somebody waits for a lock")


def end_sessions_that_wait(observer: psycopg.Connection) -> int:
    """End the sessions of this database that wait for a lock. Comes back when they are gone, and says how many."""
    ended = observer.execute(f"select pg_terminate_backend(pid, 60000) from pg_stat_activity where {_WAITS}").fetchall()
    assert all(is_gone for (is_gone,) in ended)
    return len(ended)
