"""The local queue: one loop that fetches jobs and keeps the time, and a cache that slots are served from at once.

    STARTING → POLLING ⇄ WAITING → TTL_EXPIRED → POLLING;  any → RELEASED, which is the end

It is POLLING while it holds nothing, and WAITING while jobs wait for a slot. It fetches when it holds nothing, and also
at three quarters of its size if there is likely more, so that jobs are claimed while others run. All fetching and all
giving back at the end happen in the one loop: a fetch under way at shutdown ends first, and its jobs go back with the
rest.
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
from ferryman.worker.alarm import Alarm
from ferryman.worker.claiming.claim_backoff import ClaimBackoff
from ferryman.worker.claiming.refetch_pause import RefetchPause
from ferryman.worker.settling.outcomes import Unstarted
from ferryman.worker.source import frees_work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.hooks import HookRegistry
    from ferryman.hooks.kinds import Observer
    from ferryman.hooks.reporting import Telling
    from ferryman.worker.claiming.claims import Claim, Claimed
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import LocalQueueConfig
    from ferryman.worker.settling.outcomes import Settlement
    from ferryman.worker.source import SourceParts

logger = logging.getLogger("ferryman.worker")

LARGEST_FETCH = 100_000
SECONDS_HELD_BACK = 0.01
"""How often to look whether fetching may continue."""
SECONDS_AFTER_CANCELLING = 1.0
"""How long a fetch may still take when the worker was cancelled."""


class LocalQueue:
    """Claimed jobs that wait for a free slot of one worker.

    poll_seconds: how often to look for jobs when no notification arrives
    news: reports events to hooks, in order
    """

    def __init__(
        self,
        parts: SourceParts,
        config: LocalQueueConfig,
        *,
        identity: Identity,
        hooks: HookRegistry,
        poll_seconds: float,
        news: Telling[Observer],
    ) -> None:
        self._parts = parts
        self._claimer = parts.claimer
        self._slots = parts.slots
        self._settler = parts.settler
        self._guard = parts.guard
        self._stop = parts.stop.begun
        self._identity = identity
        self._hooks = hooks
        self._poll_seconds = poll_seconds
        self._news = news
        self._alarm = Alarm()
        parts.stop.wakes(self._alarm)
        self._size = config.size * min(config.queue_count, parts.slots.concurrency)
        self._low = self._size * 3 // 4
        self._ttl_seconds = config.ttl.total_seconds()
        self._pause = RefetchPause(config.refetch_delay, size=self._size, identity=identity)
        self._retrying = Retrying("fetching jobs for the local queue", logger=logger)
        self._mode = LocalQueueMode.STARTING
        self._cached: deque[tuple[float, Claim]] = deque()
        """When to give it back, and the claim; the oldest first."""
        self._fetch_under_way: asyncio.Future[Claimed] | None = None
        self._returning: set[Claim] = set()
        self._returned = 0
        self._look_at = 0.0
        self._may_be_more = False
        """True if the last fetch may have left due jobs behind."""
        self._backoff = ClaimBackoff()
        self._pulses = 0
        """Notifications since the last fetch began."""
        self._has_run_dry = False
        """True if the queue wanted a fetch since the last one began."""

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
    def held_claims(self) -> list[Claim]:
        """The claims that wait for a slot, the next one first, and those that have just come."""
        return [*self._waiting, *self._arrived]

    @property
    def _waiting(self) -> list[Claim]:
        return [claim for _, claim in self._cached]

    @property
    def _arrived(self) -> Sequence[Claim]:
        """The claims of a fetch that is done, before this loop hears of it: another source may claim in between."""
        fetch = self._fetch_under_way
        is_done = fetch is not None and fetch.done() and not fetch.cancelled() and fetch.exception() is None
        return fetch.result().claims if fetch is not None and is_done else ()

    def serve(self) -> None:
        """Let free slots take the jobs that wait here."""
        if self._cached or self._mode is LocalQueueMode.TTL_EXPIRED:
            self._slots.fill()

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

    def slot_freed(self) -> None:
        """Let a slot that is free take the next job."""
        self.serve()
        if self._guard.may_be_dead:
            self._alarm.ring()  # the queue was refused; it looks again soon, since no event ends that

    def wake(self) -> None:
        """Fetch soon: there may be new jobs."""
        self._pulses += 1
        self._note(self._pause.after_pulse(self._pulses))
        pause = self._backoff.pause
        self._look_at = min(self._look_at, time.monotonic() + pause) if pause else 0.0
        self._alarm.ring()

    def give_back(self) -> None:
        """Give back all jobs that wait here, and fetch again."""
        if self._mode is LocalQueueMode.STARTING:
            return
        self._give_back()
        self._poll_now()

    def settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """Look for jobs if these settlements may have freed some; report when all that was given back is back."""
        if frees_work(written, refused):
            self.wake()
        if not self._returning:
            return
        self._returned += sum(settlement.claim in self._returning for settlement in written)
        self._returning.difference_update(settlement.claim for settlement in (*written, *refused))
        if not self._returning and self._returned:
            count, self._returned = self._returned, 0
            self._note(LocalQueueReturnJobs(worker_id=self._identity.id, jobs_count=count))

    @property
    def _free_slots(self) -> int:
        return 0 if self._guard.may_be_dead else self._slots.free

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
            and not self._parts.is_claiming_paused
        )  # fmt: skip

    def _patience(self) -> float:
        """Seconds until there is something to do, if nothing happens before."""
        now = time.monotonic()
        moments = [now + self._poll_seconds]
        if self._pause.until is not None:
            moments.append(self._pause.until)
        elif self._is_low:
            moments.append(max(self._look_at, now + SECONDS_HELD_BACK if self._parts.is_claiming_paused else now))
        if self._cached:
            moments.append(self._cached[0][0])
            if self._parts.is_claiming_paused:
                moments.append(now + SECONDS_HELD_BACK)  # no event says when that is over
        return max(0.0, min(moments) - now)

    async def _fetch(self) -> None:
        wanted = min(LARGEST_FETCH, self._free_slots + self._size - len(self._cached))
        is_announced, self._pulses, self._has_run_dry = self._pulses > 0, 0, False
        self._alarm.clear()
        try:
            claimed = await self._claim(wanted, is_announced=is_announced)
        except Exception as error:  # noqa: BLE001 - a function for forbidden flags may raise anything
            self._look_at = time.monotonic() + self._retrying.pause_after(error)
            return
        self._retrying.is_over()
        count = len(claimed.claims)
        self._backoff.claimed(count)
        self._may_be_more = count >= wanted or claimed.is_short
        self._note(LocalQueueGetJobsComplete(worker_id=self._identity.id, jobs_count=count))
        self._plan_next_fetch(claimed)
        self._keep(claimed.claims)
        self._fetch_under_way = None

    async def _claim(self, wanted: int, *, is_announced: bool) -> Claimed:
        claiming = self._fetch_under_way = asyncio.ensure_future(self._claimer.claim(wanted, is_announced=is_announced))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # Jobs that the database has locked for this claim must go back like the rest, so the reply is waited for.
            await asyncio.wait([claiming], timeout=SECONDS_AFTER_CANCELLING)
            claiming.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                self._cached.extend((0.0, claim) for claim in (await claiming).claims)
            self._fetch_under_way = None
            raise

    def _plan_next_fetch(self, claimed: Claimed) -> None:
        now = time.monotonic()
        if claimed.claims or self._may_be_more or self._pulses > 0 or self._has_run_dry:
            self._look_at = now + self._backoff.pause
        else:
            due_in = self._poll_seconds if claimed.next_due_in is None else max(0.0, claimed.next_due_in)
            self._look_at = now + min(self._poll_seconds, due_in)
        if not self._may_be_more:
            self._note(self._pause.after_fetch(len(claimed.claims), now))

    def _keep(self, claims: Sequence[Claim]) -> None:
        expires_at = time.monotonic() + self._ttl_seconds
        self._cached.extend((expires_at, claim) for claim in claims)
        if len(self._cached) > self._free_slots:
            self._set_mode(LocalQueueMode.WAITING)
        self.serve()

    def _keep_time(self) -> None:
        now = time.monotonic()
        self._note(self._pause.at(now))
        if self._cached and self._cached[0][0] <= now and not self._stop.is_set():
            # Slots that were busy for this long have no use for the younger ones either.
            self._give_back()
            self._set_mode(LocalQueueMode.TTL_EXPIRED)

    def _release(self) -> None:
        self._pause.until = None
        self._set_mode(LocalQueueMode.RELEASED)
        self._give_back()

    def _give_back(self) -> None:
        claims = self._waiting
        self._cached.clear()
        self._returning.update(claims)
        for claim in claims:
            self._settler.settle(claim, Unstarted())

    def _set_mode(self, mode: LocalQueueMode) -> None:
        old, self._mode = self._mode, mode
        if old is not mode:
            self._note(LocalQueueSetMode(worker_id=self._identity.id, old_mode=old, new_mode=mode))

    def _note(self, event: Observer | None) -> None:
        """Report an event to hooks, without waiting for them."""
        if event is not None and self._hooks.wants(type(event)):
            self._news.put([event])
