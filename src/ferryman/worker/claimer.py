"""Asks the database for jobs."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ferryman.errors import DatabaseUnavailableError
from ferryman.queries import working
from ferryman.worker import sync_points
from ferryman.worker.claims import Claimed, claimed_from_rows, task_ids
from ferryman.worker.lost_claims import LostClaims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.worker.connection import WorkerConnection
    from ferryman.worker.options import ForbiddenFlags

WINDOW_PER_SLOT = 3
SMALLEST_WINDOW = 64
LARGEST_WINDOW = 1_000_000


class Claimer:
    """Claims jobs for one worker, and knows the numbers of its tasks."""

    def __init__(
        self,
        connection: WorkerConnection,
        worker_id: str,
        identifiers: Sequence[str],
        *,
        forbidden_flags: ForbiddenFlags,
        use_local_time: bool,
    ) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._identifiers = identifiers
        self._forbidden_flags = forbidden_flags
        self._use_local_time = use_local_time
        self._stretch = 1
        self._lost = LostClaims(connection, worker_id)
        self.tasks: Mapping[int, str] = {}

    async def register(self) -> None:
        """Give each of our tasks a number, and learn it."""
        tasks: Mapping[int, str] = {}
        while len(tasks) < len(self._identifiers):
            tasks = task_ids(await self._connection.fetch(working.register_tasks(self._identifiers)))
        # Only now: jobs that were claimed by the old numbers may start at any time, and this may fail.
        self.tasks = tasks

    async def claim(self, wanted: int) -> Claimed:
        """Claim up to so many jobs."""
        window = min(LARGEST_WINDOW, (wanted * WINDOW_PER_SLOT + SMALLEST_WINDOW) * self._stretch)
        call = working.claim_jobs(
            self._worker_id,
            list(self.tasks),
            wanted=wanted,
            window=window,
            now=datetime.now(UTC) if self._use_local_time else None,
            forbidden_flags=await self._flags_to_avoid(),
        )
        await self._lost.give_back()
        try:
            claimed = claimed_from_rows(await self._connection.fetch(call))
        except DatabaseUnavailableError:
            self._lost.suspect()
            raise
        self._lost.heard_of(claimed)
        if claimed.claims:
            sync_points.reach("after_claim")
        # What we looked at was all somebody else's, or one deep queue: look further, until it is not.
        is_short = claimed.is_window_full and len(claimed.claims) < wanted
        self._stretch = self._stretch * 4 if is_short and window < LARGEST_WINDOW else 1
        if claimed.known_tasks is not None and claimed.known_tasks < len(self.tasks):
            # Somebody cleaned our tasks away while we had no jobs; those that came since have other numbers.
            await self.register()
            return await self.claim(wanted)
        return claimed

    @property
    def is_looking_further(self) -> bool:
        """Whether there may be jobs beyond what the last claim looked at."""
        return self._stretch > 1

    async def _flags_to_avoid(self) -> Sequence[str]:
        flags = self._forbidden_flags
        if not callable(flags):
            return flags
        answer = flags()
        return (await answer if inspect.isawaitable(answer) else answer) or ()
