"""Waiting for facts instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

DEADLINE_SECONDS = 100.0
"""On the busiest machine, whatever happens has happened by then."""


async def until(is_true: Callable[[], Any], what: str, *, within: float | None = None) -> Any:
    """The first answer that is true; fail with `what` when none ever is."""
    deadline = _deadline(within)
    while not (answer := is_true()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.005)
    return answer


def until_blocking(is_true: Callable[[], Any], what: str, *, within: float | None = None) -> Any:
    """The same for tests without an event loop."""
    deadline = _deadline(within)
    while not (answer := is_true()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.005)
    return answer


def _deadline(within: float | None) -> float:
    return time.monotonic() + (DEADLINE_SECONDS if within is None else within)


def waiting_for_locks(observer: psycopg.Connection) -> int:
    """How many sessions of the observer's database wait for a lock right now."""
    row = observer.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def somebody_waits_for_a_lock(observer: psycopg.Connection) -> bool:
    """Whether a session of the observer's database is waiting for a lock right now."""
    return waiting_for_locks(observer) > 0


def until_somebody_waits(observer: psycopg.Connection, least: int = 1) -> None:
    """Come back when that many sessions of this database wait for a lock."""
    until_blocking(lambda: waiting_for_locks(observer) >= least, "somebody waits for a lock")
