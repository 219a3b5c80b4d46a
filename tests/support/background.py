"""Calls that block, made from another thread on a connection of their own."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import psycopg

from tests.support.functions import Functions

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

DEADLINE_SECONDS = 30.0


def in_background(dsn: str, call: Callable[[Functions], R]) -> Future[R]:
    """Begin the call; its result, or its error, comes with the future."""
    executor = ThreadPoolExecutor(max_workers=1)
    future = executor.submit(_on_own_connection, dsn, call)
    executor.shutdown(wait=False)
    return future


def until_somebody_waits(observer: psycopg.Connection, least: int = 1) -> None:
    """Come back when that many sessions of this database wait for a lock."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    while observer.execute(waiting).fetchone()[0] < least:
        assert time.monotonic() < deadline, "nobody waits for a lock"
        time.sleep(0.002)


def _on_own_connection(dsn: str, call: Callable[[Functions], R]) -> R:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return call(Functions(connection))
