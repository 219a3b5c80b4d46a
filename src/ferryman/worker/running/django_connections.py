"""Closes Django's lost and outdated connections around blocking jobs, as Django does around requests."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, TypeVar

from ferryman.worker.running.forks import generation

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


def with_usable_connections(call: Callable[[], R]) -> R:
    """Make the call. Before and after it, close those Django connections of this thread that cannot be used any more.

    Without this a connection that was lost would stay with its thread, and every job there would fail. Nothing happens
    where Django is not loaded or not configured.
    """
    _close_old_connections()
    born_in = generation()
    try:
        return call()
    finally:
        if generation() == born_in:  # a process that the handler forked would end the session of its parent
            _close_old_connections()


def _close_old_connections() -> None:
    database, conf = sys.modules.get("django.db"), sys.modules.get("django.conf")
    if database is None or conf is None:
        return
    # A connection that cannot even be closed decides nothing about the job.
    with contextlib.suppress(Exception):
        if conf.settings.configured:
            database.close_old_connections()
