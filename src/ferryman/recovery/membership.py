"""A worker's row among the registered workers: added once under each id, and never brought back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman.database.failures import sqlstate_of
from ferryman.queries.beat import register_worker, rejoin_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferryman.recovery.beat_session import BeatSession

logger = logging.getLogger("ferryman.recovery")

_UNCERTAIN_CLASSES = ("08", "57P")
"""The connection broke, or the server went down: it may have done what it was told, and could not say so."""


class Membership:
    """Knows under which id the worker is registered, or shall be."""

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
        self._is_told = False
        self.was_tried = False
        """Whether there may be a row with this id, or have been one: then it must not be added again."""

    def join(self, session: BeatSession) -> None:
        """Be registered, with the lock of this session. Under a new id if the old one was swept."""
        metadata = {**self._metadata, "session_key": session.key}
        if self.was_tried and not session.fetch(rejoin_worker(self.worker_id, metadata)):
            self.was_swept()
        if self._is_lost:
            self._take_new_id()
        if not self.was_tried:
            self._add(session, metadata)

    def tell(self) -> None:
        """Say that the worker may claim under this id, if that was not said before."""
        if not self._is_told:
            self._on_registered(self.worker_id)
            self._is_told = True

    def was_swept(self) -> None:
        """Note that the row is gone: others have taken the jobs."""
        self._is_lost = True

    def _take_new_id(self) -> None:
        old, self.worker_id = self.worker_id, self._on_swept(self.worker_id)
        self._is_lost = self._is_told = self.was_tried = False
        logger.warning(
            "worker %s was taken for dead, and lost its jobs; it goes on as %s",
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
