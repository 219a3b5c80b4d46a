"""The local queue: one loop that fetches jobs and keeps the time, and a cache that slots are served from at once.

    STARTING → POLLING ⇄ WAITING → TTL_EXPIRED → POLLING;  any → RELEASED, which is the end

It is POLLING while it holds nothing, and WAITING while jobs wait for a slot. It fetches when it holds nothing, and also
at three quarters of its size if there is likely more, so that claiming goes on beside running. All fetching and all
giving back at the end happen in the one loop: a fetch under way when the worker is told to stop ends first, and what it
brought goes back with the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from ferryman.database.retrying import Retrying
from ferryman.hooks import (
    LocalQueueGetJobsComplete,
    LocalQueueInit,
    LocalQueueMode,
    LocalQueueReturnJobs,
    LocalQueueSetMode,
)
from ferryman.worker.claiming.refetch_pause import RefetchPause
from ferryman.worker.claiming.vain_claims import VainClaims
from ferryman.worker.settling.outcomes import Outcome, Unstarted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.hooks import HookRegistry
    from ferryman.hooks.kinds import Observer
    from ferryman.hooks.reporting import Telling
    from ferryman.worker.alarm import Alarm
    from ferryman.worker.claiming.claimer import Claimer
    from ferryman.worker.claiming.claims import Claim, Claimed
    from ferryman.worker.identity import Identity
    from ferryman.worker.local_queue_config import LocalQueueConfig
    from ferryman.worker.settling.outcomes import Settlement

logger = logging.getLogger("ferryman.worker")

LARGEST_FETCH = 100_000
SECONDS_HELD_BACK = 0.01
"""How often to look whether enough was settled to go on fetching."""
SECONDS_AFTER_CANCELLING = 1.0
"""How long a fetch may still take when the worker was cancelled."""


class LocalQueue:
    """Claimed jobs that wait for a free slot of one worker.

    news: what hooks are told of, in order
    """

    def __init__(
        self,
        config: LocalQueueConfig,
        claimer: Claimer,
        *,
        identity: Identity,
        hooks: HookRegistry,
        concurrency: int,
        poll_seconds: float,
        alarm: Alarm,
        stop: asyncio.Event,
        free_slots: Callable[[], int],
        begin: Callable[[], None],
        settle: Callable[[Claim, Outcome], None],
        is_held_back: Callable[[], bool],
        news: Telling[Observer],
    ) -> None:
        self._claimer = claimer
        self._identity = identity
        self._hooks = hooks
        self._poll_seconds = poll_seconds
        self._alarm = alarm
        self._stop = stop
        self._free_slots = free_slots
        self._begin = begin
        self._settle = settle
        self._is_held_back = is_held_back
        self._size = config.size * min(config.queue_count, concurrency)
        self._low = self._size * 3 // 4
        self._ttl_seconds = config.ttl.total_seconds()
        self._pause = RefetchPause(config.refetch_delay, size=self._size, identity=identity)
        self._trouble = Retrying("fetching jobs for the local queue", logger=logger)
        self._mode = LocalQueueMode.STARTING
        self._cached: deque[tuple[float, Claim]] = deque()
        """When to give it back, and the claim; the oldest first."""
        self._returning: set[Claim] = set()
        self._returned = 0
        self._look_at = 0.0
        self._may_be_more = False
        """Whether the last fetch left jobs behind, as far as we know."""
        self._vain = VainClaims()
        self._pulses = 0
        """Announcements since the last fetch began."""
        self._has_run_dry = False
        """Whether it wanted a fetch since the last one began."""
        self._news = news

    async def run(self) -> None:
        """Fetch and serve until the worker stops, then give back what is left."""
        try:
            self._note(LocalQueueInit(worker_id=self._identity.id))
            self._set_mode(LocalQueueMode.POLLING)
            while not self._stop.is_set():
                if self._is_time_to_fetch():
                    await self._fetch()
                else:
                    await self._alarm.wait(self._patience())
                self._keep_time()
                self.serve()
        finally:
            self._release()

    @property
    def claims(self) -> list[Claim]:
        """Those that wait for a slot."""
        return [claim for _, claim in self._cached]

    def serve(self) -> None:
        """Let slots take jobs, if there are any."""
        if self._cached or self._mode is LocalQueueMode.TTL_EXPIRED:
            self._begin()

    def take(self) -> Claim | None:
        """The next job, if there is one. For a slot that is free, in a worker that may start jobs."""
        if not self._cached:
            if self._mode is LocalQueueMode.TTL_EXPIRED:
                self._poll_now()
            return None
        _, claim = self._cached.popleft()
        if len(self._cached) <= self._low:
            if not self._cached:
                self._poll_now()
            elif self._is_low:
                self._alarm.ring()
        return claim

    def pulse(self) -> None:
        """There may be new jobs."""
        self._pulses += 1
        self._note(self._pause.after_pulse(self._pulses))
        pause = self._vain.pause
        self._look_at = min(self._look_at, time.monotonic() + pause) if pause else 0.0
        self._alarm.ring()

    def give_back(self) -> None:
        """Hand back all that waits, because others may have it already."""
        self._give_back()
        self._poll_now()

    def have_settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """The database knows the outcomes of jobs, or refused them; tells when all that was given back is back."""
        if not self._returning:
            return
        self._returned += sum(settlement.claim in self._returning for settlement in written)
        self._returning.difference_update(settlement.claim for settlement in (*written, *refused))
        if not self._returning and self._returned:
            count, self._returned = self._returned, 0
            self._note(LocalQueueReturnJobs(worker_id=self._identity.id, jobs_count=count))

    def _poll_now(self) -> None:
        self._set_mode(LocalQueueMode.POLLING)
        self._has_run_dry = True
        self._look_at = 0.0
        self._alarm.ring()

    @property
    def _is_low(self) -> bool:
        if not self._cached:
            return self._mode is LocalQueueMode.POLLING
        return len(self._cached) <= self._low and (self._may_be_more or self._pulses > 0)

    def _is_time_to_fetch(self) -> bool:
        return (
            self._is_low
            and not self._pause.is_on
            and self._look_at <= time.monotonic()
            and not self._is_held_back()
        )  # fmt: skip

    def _patience(self) -> float:
        """Seconds until there is something to do, if nothing happens before."""
        now = time.monotonic()
        moments = [now + self._poll_seconds]
        if self._pause.until is not None:
            moments.append(self._pause.until)
        elif self._is_low:
            moments.append(max(self._look_at, now + SECONDS_HELD_BACK if self._is_held_back() else now))
        if self._cached:
            moments.append(self._cached[0][0])
            if self._is_held_back():
                moments.append(now + SECONDS_HELD_BACK)  # nobody tells when a fence is lifted
        return max(0.0, min(moments) - now)

    async def _fetch(self) -> None:
        wanted = min(LARGEST_FETCH, self._free_slots() + self._size - len(self._cached))
        is_announced, self._pulses, self._has_run_dry = self._pulses > 0, 0, False
        self._alarm.clear()
        try:
            claimed = await self._claim(wanted, is_announced=is_announced)
        except Exception as error:  # noqa: BLE001 - a function for forbidden flags may raise anything
            self._look_at = time.monotonic() + self._trouble.pause_after(error)
            return
        self._trouble.is_over()
        count = len(claimed.claims)
        self._vain.claimed(count)
        self._may_be_more = count >= wanted or self._claimer.is_looking_further
        self._note(LocalQueueGetJobsComplete(worker_id=self._identity.id, jobs_count=count))
        self._plan_next_fetch(claimed)
        self._keep(claimed.claims)

    async def _claim(self, wanted: int, *, is_announced: bool) -> Claimed:
        claiming = asyncio.ensure_future(self._claimer.claim(wanted, is_announced=is_announced))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # What the database has handed out already must go back like the rest, so we have to know it.
            await asyncio.wait([claiming], timeout=SECONDS_AFTER_CANCELLING)
            claiming.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                self._cached.extend((0.0, claim) for claim in (await claiming).claims)
            raise

    def _plan_next_fetch(self, claimed: Claimed) -> None:
        now = time.monotonic()
        if claimed.claims or self._may_be_more or self._pulses > 0 or self._has_run_dry:
            self._look_at = now + self._vain.pause
        else:
            due_in = self._poll_seconds if claimed.next_due_in is None else max(0.0, claimed.next_due_in)
            self._look_at = now + min(self._poll_seconds, due_in)
        if not self._may_be_more:
            self._note(self._pause.after_fetch(len(claimed.claims), now))

    def _keep(self, claims: Sequence[Claim]) -> None:
        expires_at = time.monotonic() + self._ttl_seconds
        self._cached.extend((expires_at, claim) for claim in claims)
        if len(self._cached) > self._free_slots():
            self._set_mode(LocalQueueMode.WAITING)
        self.serve()

    def _keep_time(self) -> None:
        now = time.monotonic()
        self._note(self._pause.at(now))
        if self._cached and self._cached[0][0] <= now and not self._stop.is_set():
            # Slots that were busy for so long have no use for the younger ones either.
            self._give_back()
            self._set_mode(LocalQueueMode.TTL_EXPIRED)

    def _release(self) -> None:
        self._pause.until = None
        self._set_mode(LocalQueueMode.RELEASED)
        self._give_back()

    def _give_back(self) -> None:
        claims = self.claims
        self._cached.clear()
        self._returning.update(claims)
        for claim in claims:
            self._settle(claim, Unstarted())

    def _set_mode(self, mode: LocalQueueMode) -> None:
        old, self._mode = self._mode, mode
        if old is not mode:
            self._note(LocalQueueSetMode(worker_id=self._identity.id, old_mode=old, new_mode=mode))

    def _note(self, event: Observer | None) -> None:
        """Let hooks hear of an event. Nothing here waits for them."""
        if event is not None and self._hooks.wants(type(event)):
            self._news.put([event])
