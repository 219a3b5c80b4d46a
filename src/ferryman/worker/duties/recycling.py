"""Recycling: a worker that has run enough jobs, or uses too much memory, takes no more and ends when its jobs have."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ferryman.worker.memory import resident_bytes, shown

if TYPE_CHECKING:
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.identity import Identity
    from ferryman.worker.running.attempt import Attempt, Cancelling
    from ferryman.worker.settling.outcomes import Outcome
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")

SECONDS_BETWEEN_LOOKS = 1.0


class Recycling:
    """Decides when a worker is due for replacement.

    max_jobs: how many jobs the worker runs; None for no limit
    max_memory: the most memory of its process, bytes; None for no limit. At least one job is run: a limit that is too
        low for the application must not keep its jobs from running
    """

    def __init__(self, identity: Identity, stop: Stopping, *, max_jobs: int | None, max_memory: int | None) -> None:
        self._identity = identity
        self._stop = stop
        self._max_jobs = max_jobs
        self._max_memory = max_memory
        self._ended = 0
        self._is_due = False

    def counted(self, attempt: Attempt) -> Attempt:
        """Wrap an attempt, so that each one counts towards `max_jobs`."""

        async def make(claim: Claim, cancelling: Cancelling) -> Outcome:
            try:
                return await attempt(claim, cancelling)
            finally:
                self._ended += 1
                if self._ended == self._max_jobs:
                    self._retire(f"it has run {self._ended:,} jobs, as many as max_jobs says")

        return make

    async def watch(self) -> None:
        """Check the memory of this process at intervals."""
        while self._max_memory is not None:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            used = resident_bytes() if self._ended else 0
            if used > self._max_memory:
                self._retire(f"it uses {shown(used)}, more than the {shown(self._max_memory)} of max_memory")

    def _retire(self, reason: str) -> None:
        if self._is_due or self._stop.begun.is_set():
            return
        self._is_due = True
        logger.info(
            "worker %s claims no more jobs, because %s; it finishes its running jobs and ends, so that a new process "
            "can take its place",
            self._identity.id,
            reason,
            extra={"event": "worker_recycled", "worker_id": self._identity.id},
        )
        self._stop.retire(reason)
