"""Waiting for facts instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

DEADLINE_SECONDS = 60.0


async def until(is_true: Callable[[], bool], what: str) -> None:
    """Come back when the fact holds; fail with `what` when it never does."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.005)


def somebody_waits_for_a_lock(observer: psycopg.Connection) -> bool:
    """Whether a connection to the observer's database is waiting for a lock right now."""
    row = observer.execute(
        "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
    ).fetchone()
    return row == (True,)
