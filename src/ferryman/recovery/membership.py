"""A worker's row among the registered workers. An id is registered once. A swept worker comes back under another id."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman.database.failures import sqlstate_of
from ferryman.queries.beat import register_worker, rejoin_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ferryman.recovery.beat_session import BeatSession
    from ferryman.recovery.config import RecoverySettings

logger = logging.getLogger("ferryman.recovery")

_UNCERTAIN_CLASSES = ("08", "57P")
"""The connection broke, or the server went down: the statement may have been executed without an answer."""


class Membership:
    """The id under which a worker is registered, or tries to be."""

    def __init__(
        self,
        worker_id: str,
        metadata: Mapping[str, Any],
        *,
        on_swept: Callable[[str], str],
        on_registered: Callable[[str], None],
    ) -> None:
        self.worker_id = worker_id
        self._metadata = metadata
        self._on_swept = on_swept
        self._on_registered = on_registered
        self._is_lost = False
        self._is_announced = False
        self.was_tried = False
        """True if a row with this id may exist or have existed: then it must not be added again."""

    def join(self, session: BeatSession) -> None:
        """Register with the session lock of this connection, under a new id if the old one was swept."""
        metadata = {**self._metadata, "session_key": session.key}
        if self.was_tried and not session.fetch(rejoin_worker(self.worker_id, metadata)):
            self.was_swept()
        if self._is_lost:
            self._take_new_id()
        if not self.was_tried:
            self._add(session, metadata)

    def announce(self) -> None:
        """Call `on_registered` with the id, once for each id."""
        if not self._is_announced:
            self._on_registered(self.worker_id)
            self._is_announced = True

    def was_swept(self) -> None:
        """Note that the row is gone: another worker has declared this one dead."""
        self._is_lost = True

    def _take_new_id(self) -> None:
        old, self.worker_id = self.worker_id, self._on_swept(self.worker_id)
        self._is_lost = self._is_announced = self.was_tried = False
        logger.warning(
            "this worker (%s) was declared dead, and its jobs were released for other workers; it cancels the handlers "
            "of those jobs and continues as worker %s",
            old,
            self.worker_id,
            extra={"event": "worker_swept", "worker_id": old},
        )

    def _add(self, session: BeatSession, metadata: Mapping[str, Any]) -> None:
        self.was_tried = True
        try:
            session.fetch(register_worker(self.worker_id, metadata))
        except psycopg.Error as error:
            state = sqlstate_of(error)
            self.was_tried = state is None or state.startswith(_UNCERTAIN_CLASSES)
            raise


def worker_metadata(
    settings: RecoverySettings,
    *,
    version: str,
    tasks: Iterable[str],
    concurrency: int,
    prefetches: bool,
    policies: Mapping[str, Mapping[str, Any]] | None = None,
) -> Mapping[str, Any]:
    """The metadata of a worker's row, for sweepers and for people. Sweepers read the last six:

    prefetches: True if the worker claims ahead; if so, it marks starts as `must_be_marked` says
    beat_interval: its heartbeat interval in seconds; it is not silent before two of them
    suspects: True if it marks the start of a job that has crashed, and runs suspects as their flags say
    on_crash, max_crashes: the defaults for tasks that set none
    policies: the policies of its tasks; see `own_policies`

    A worker that claims ahead adds `waiting`: claims that have not started; see `worker.claiming.waiting_list`.
    """
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": version,
        "tasks": sorted(tasks),
        "concurrency": concurrency,
        "prefetches": prefetches,
        "beat_interval": settings.heartbeat_interval.total_seconds(),
        "suspects": True,
        "on_crash": settings.on_crash,
        "max_crashes": settings.max_crashes,
        "policies": policies or {},
    }
