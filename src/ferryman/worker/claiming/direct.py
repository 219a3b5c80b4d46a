"""The usual way to jobs: whenever there is a free slot, claim as many jobs as can start at once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ferryman.database.retrying import Retrying
from ferryman.errors import NotConnectedError
from ferryman.worker.claiming.vain_claims import VainClaims

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ferryman.worker.alarm import Alarm
    from ferryman.worker.claiming.claimer import Claimer
    from ferryman.worker.claiming.claims import Claim, Claimed
    from ferryman.worker.running.slots import Running
    from ferryman.worker.settling.outcomes import Settlement
    from ferryman.worker.settling.settler import Settler
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")

SECONDS_HELD_BACK = 0.1
"""How often to look whether claiming may go on."""
SECONDS_TO_FLUSH = 30.0


class ClaimLoop:
    """Claims and starts jobs, until the worker ends or nothing is left to do.

    is_settled: whether all outcomes are written, and hooks have been told of them
    flush: comes back when that is so
    """

    def __init__(
        self,
        claimer: Claimer,
        running: Running,
        settler: Settler,
        stop: Stopping,
        alarm: Alarm,
        *,
        concurrency: int,
        poll_seconds: float,
        is_held_back: Callable[[], bool],
        is_settled: Callable[[], bool],
        flush: Callable[[], Coroutine[Any, Any, None]],
        hears_of_jobs: Callable[[], bool],
    ) -> None:
        self._claimer = claimer
        self._running = running
        self._settler = settler
        self._stop = stop
        self._alarm = alarm
        self._concurrency = concurrency
        self._poll_seconds = poll_seconds
        self._is_held_back = is_held_back
        self._is_settled = is_settled
        self._flush = flush
        self._hears_of_jobs = hears_of_jobs
        self._is_announced = False
        self._waits_for_slots = False
        self._has_slot_ended = False
        self._trouble = Retrying("claiming jobs", logger=logger)
        self._vain = VainClaims()

    def wake(self) -> None:
        """There may be new jobs."""
        self._is_announced = True
        self._alarm.ring()

    def has_free_slot(self) -> None:
        """A job has ended. If all that was due is claimed, and others would be announced, nothing follows from that.

        Unless its completion would have to wait: a claim takes it along.
        """
        self._has_slot_ended = True
        if self._waits_for_slots or self._settler.is_completing:
            self._alarm.ring()

    async def run(self) -> None:
        """Claim until the worker is told to stop."""
        while not self._stop.begun.is_set():
            claimed = await self._claim()
            if claimed is not None and self._claimer.has_all:
                await self._wait_for_more(self._pause_after(claimed))
                if self._is_announced and (pause := self._vain.pause):
                    await asyncio.sleep(pause)

    async def run_once(self) -> None:
        """Claim until nothing is due, nothing runs, and everything is settled."""
        while not self._stop.begun.is_set():
            was_idle = not self._running and self._is_settled()
            claimed = await self._claim()
            if claimed is None or not self._claimer.has_all:
                continue
            if was_idle and not claimed.claims:
                return
            if self._running:
                await self._wait_for_slots(self._pause_after(claimed))
            else:
                await self._stop.wait_for(self._flush(), SECONDS_TO_FLUSH, or_hurry=True)

    async def _claim(self) -> Claimed | None:
        """Claim for all free slots, if there are any and all is well; otherwise wait a little."""
        free = self._concurrency - len(self._running)
        if free <= 0:
            await self._wait_for_slots(self._poll_seconds)
            return None
        if self._is_held_back():
            await self._alarm.wait(SECONDS_HELD_BACK)
            return None
        self._alarm.clear()
        self._has_slot_ended = False
        try:
            claimed = await self._claim_and_complete(free)
        except Exception as error:  # noqa: BLE001 - a function for forbidden flags may raise anything
            await self._alarm.wait(self._trouble.pause_after(error))
            return None
        self._trouble.is_over()
        if claimed.claims:
            self._running.start(claimed.claims)
            # Two rounds of the loop before anything else is asked of the database: let them begin, and let the settler
            # see what has ended at once. It sends that, or leaves it for the next claim.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return claimed

    async def _claim_and_complete(self, wanted: int) -> Claimed:
        """Claim, and complete in passing what waits for that: one round trip and one commit for both."""
        is_announced, self._is_announced = self._is_announced, False
        borrowed: list[Settlement] = []

        def borrow(worker_id: str) -> list[Claim]:
            borrowed.extend(self._settler.borrow_completed(worker_id))
            return [settlement.claim for settlement in borrowed]

        try:
            claimed = await self._claimer.claim(wanted, borrow, is_announced=is_announced)
        except BaseException as error:
            self._settler.give_back(borrowed, is_uncertain=not isinstance(error, NotConnectedError))
            raise
        self._settler.has_completed(borrowed, claimed.done)
        self._vain.claimed(len(claimed.claims))
        return claimed

    async def _wait_for_more(self, seconds: float) -> None:
        if self._hears_of_jobs() and not self._claimer.flags_can_change:
            await self._alarm.wait(seconds)
        else:
            await self._wait_for_slots(seconds)  # one that ends may have added some

    async def _wait_for_slots(self, seconds: float) -> None:
        """Wait for a job to end. One that ended during the last claim may have added jobs which that did not see."""
        if self._has_slot_ended:
            self._has_slot_ended = False
            return
        self._waits_for_slots = True
        await self._alarm.wait(seconds)
        self._waits_for_slots = False

    def _pause_after(self, claimed: Claimed) -> float:
        due_in = claimed.next_due_in
        return self._poll_seconds if due_in is None else min(self._poll_seconds, max(0.0, due_in))
