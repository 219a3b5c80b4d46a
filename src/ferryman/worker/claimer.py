"""Asks the database for jobs."""

from __future__ import annotations

import asyncio
import inspect
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ferryman.errors import DatabaseUnavailableError
from ferryman.queries import working
from ferryman.worker import sync_points
from ferryman.worker.claims import Claimed, claimed_from_rows, task_ids
from ferryman.worker.lost_claims import LostClaims

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferryman.worker.claims import Claim
    from ferryman.worker.connection import WorkerConnection
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import ForbiddenFlags

WINDOW_PER_SLOT = 3
SMALLEST_WINDOW = 64
LARGEST_WINDOW = 1_000_000
SECONDS_BY_TASK = 1.0
"""How long to claim by task before seeing whether what stood in front is gone."""


class Claimer:
    """Claims jobs for one worker, and knows the numbers of its tasks.

    known: see `LostClaims`
    """

    def __init__(
        self,
        connection: WorkerConnection,
        identity: Identity,
        identifiers: Sequence[str],
        *,
        forbidden_flags: ForbiddenFlags,
        use_local_time: bool,
        known: Callable[[], Iterable[Claim]] = tuple,
    ) -> None:
        self._connection = connection
        self._identity = identity
        self._identifiers = identifiers
        self._forbidden_flags = forbidden_flags
        self._use_local_time = use_local_time
        self._by_task_until = 0.0
        self._stretch = 1
        self._is_short = False
        self._lost = LostClaims(connection, known)
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
        worker_id = self._identity.id
        by_task = time.monotonic() < self._by_task_until
        window = (wanted * WINDOW_PER_SLOT + SMALLEST_WINDOW) * (self._stretch if by_task else 1)
        call = working.claim_jobs(
            worker_id,
            list(self.tasks),
            wanted=wanted,
            window=min(LARGEST_WINDOW, window),
            now=datetime.now(UTC) if self._use_local_time else None,
            forbidden_flags=await self._flags_to_avoid(),
            by_task=by_task,
        )
        await self._lost.give_back()
        try:
            claimed = claimed_from_rows(await self._connection.fetch(call), worker_id)
        except (DatabaseUnavailableError, asyncio.CancelledError):
            self._lost.suspect(worker_id)
            raise
        if claimed.claims and worker_id != self._identity.id:
            # We were swept while we asked. What the old name holds would be an orphan's: nobody stands up for it.
            self._lost.suspect(worker_id)
            return await self.claim(wanted)
        self._lost.heard_of(claimed)
        if claimed.claims:
            sync_points.reach("after_claim")
        self._look_further(
            is_short=claimed.is_window_full and len(claimed.claims) < wanted and window < LARGEST_WINDOW,
            by_task=by_task,
        )
        if claimed.known_tasks is not None and claimed.known_tasks < len(self.tasks):
            # Somebody cleaned our tasks away while we had no jobs; those that came since have other numbers.
            await self.register()
            return await self.claim(wanted)
        return self._lost.remind(claimed)

    async def give_back_lost(self) -> None:
        """Give back what was claimed and never heard of, when no claim will be made any more."""
        await self._lost.give_back(at_once=True)

    @property
    def is_looking_further(self) -> bool:
        """Whether there may be jobs beyond what the last claim looked at."""
        return self._is_short

    def _look_further(self, *, is_short: bool, by_task: bool) -> None:
        """What we looked at was all somebody else's, or a few deep queues: look past it, and ever further.

        Nothing is kept that could be out of date: every claim looks at what the table holds by then.
        """
        self._is_short = is_short
        if not by_task:
            self._stretch = 1
            self._by_task_until = time.monotonic() + SECONDS_BY_TASK if is_short else 0.0
        elif is_short:
            self._stretch *= 4

    async def _flags_to_avoid(self) -> Sequence[str]:
        flags = self._forbidden_flags
        if not callable(flags):
            return flags
        answer = flags()
        return (await answer if inspect.isawaitable(answer) else answer) or ()
