"""Calls that block, made from another thread on a connection of their own."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import psycopg

from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


def in_background(dsn: str, call: Callable[[Tables], R]) -> Future[R]:
    """Begin the call; its result, or its error, comes with the future."""
    executor = ThreadPoolExecutor(max_workers=1)
    future = executor.submit(_on_own_connection, dsn, call)
    executor.shutdown(wait=False)
    return future


def _on_own_connection(dsn: str, call: Callable[[Tables], R]) -> R:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return call(Tables(connection))
