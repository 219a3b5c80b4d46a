"""The usual source of jobs: whenever there is a free slot, it claims as many jobs as can start at once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ferryman.database.retrying import Retrying
from ferryman.worker.alarm import Alarm
from ferryman.worker.claiming.claim_backoff import ClaimBackoff
from ferryman.worker.source import frees_work
from ferryman.worker.stopping import SECONDS_TO_FLUSH

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ferryman.worker.claiming.claims import Claim, Claimed
    from ferryman.worker.claiming.listener import Listener
    from ferryman.worker.settling.outcomes import Settlement
    from ferryman.worker.source import SourceParts

logger = logging.getLogger("ferryman.worker")

SECONDS_HELD_BACK = 0.1
"""How often to look whether claiming may continue."""


class DirectSource:
    """Claims jobs and starts them at once.

    How many: one for each free slot. When: again at once, until a claim took every due job (`Claimed.left_nothing`).
    Then: when a notification or a settlement wakes it, when a slot gets free that it waits for, when the next job is
    due, or after `poll_seconds`. It pauses while `SourceParts.is_claiming_paused`, and after claims that found nothing
    (`ClaimBackoff`).

    listener: receives notifications of new jobs; None if the worker does not listen
    poll_seconds: how often to look for jobs when no notification arrives
    once: True stops when nothing is due, nothing runs, and everything is settled. It may be run again then
    """

    def __init__(
        self, parts: SourceParts, *, listener: Listener | None, poll_seconds: float, once: bool = False
    ) -> None:
        self._parts = parts
        self._claimer = parts.claimer
        self._slots = parts.slots
        self._settler = parts.settler
        self._stop = parts.stop
        self._backlog = parts.backlog
        self._listener = listener
        self._poll_seconds = poll_seconds
        self._once = once
        self._alarm = Alarm()
        parts.stop.wakes(self._alarm)
        self._is_announced = False
        self._waits_for_slots = False
        self._has_slot_ended = False
        self._retrying = Retrying("claiming jobs", logger=logger)
        self._backoff = ClaimBackoff()

    async def run(self) -> None:
        """Claim and start jobs until the worker shuts down, or with `once` until nothing is left to do."""
        await (self._run_once() if self._once else self._run())

    def wake(self) -> None:
        """Claim soon: there may be new jobs."""
        self._is_announced = True
        self._alarm.ring()

    def take(self) -> Claim | None:
        """Return None: no claim waits here."""
        return None

    def slot_freed(self) -> None:
        """Take note that a job has ended.

        Claims again only if the source waits for a slot, or if completions are being written: then a claim takes this
        one along.
        """
        self._has_slot_ended = True
        if self._waits_for_slots or self._settler.is_completing:
            self._alarm.ring()

    @property
    def held_claims(self) -> Collection[Claim]:
        """No claims: each has a slot at once."""
        return ()

    def give_back(self) -> None:
        """Do nothing: no claim waits here."""

    def settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """Look for jobs if these settlements may have freed some."""
        if frees_work(written, refused):
            self.wake()

    async def _run(self) -> None:
        while not self._stop.begun.is_set():
            claimed = await self._claim()
            if claimed is not None and claimed.left_nothing:
                await self._wait_for_more(self._pause_after(claimed))
                if self._is_announced and (pause := self._backoff.pause):
                    await asyncio.sleep(pause)

    async def _run_once(self) -> None:
        while not self._stop.begun.is_set():
            was_idle = not self._slots and self._backlog.is_done
            claimed = await self._claim()
            if claimed is None or not claimed.left_nothing:
                continue
            if was_idle and not claimed.claims:
                return
            if self._slots:
                await self._wait_for_slots(self._pause_after(claimed))
            else:
                await self._stop.wait_for(self._backlog.flush(), SECONDS_TO_FLUSH, or_hurry=True)

    async def _claim(self) -> Claimed | None:
        """Claim jobs for all free slots. If there are none, or nothing may be claimed now, wait a little."""
        free = self._slots.free
        if free <= 0:
            await self._wait_for_slots(self._poll_seconds)
            return None
        if self._parts.is_claiming_paused:
            await self._alarm.wait(SECONDS_HELD_BACK)
            return None
        self._alarm.clear()
        self._has_slot_ended = False
        try:
            claimed = await self._claim_and_complete(free)
        except Exception as error:  # noqa: BLE001 - a function for forbidden flags may raise anything
            await self._alarm.wait(self._retrying.pause_after(error))
            return None
        self._retrying.is_over()
        if claimed.claims:
            self._slots.start(claimed.claims)
            # Two rounds of the loop before anything else is asked of the database: let them begin, and let the settler
            # see which of them ended at once. It writes these, or leaves them for the next claim.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return claimed

    async def _claim_and_complete(self, wanted: int) -> Claimed:
        """Claim, and write waiting completions along: one round trip and one commit for both."""
        is_announced, self._is_announced = self._is_announced, False
        claimed = await self._claimer.claim(wanted, self._settler, is_announced=is_announced)
        self._backoff.claimed(len(claimed.claims))
        return claimed

    async def _wait_for_more(self, seconds: float) -> None:
        if self._listener is not None and self._listener.is_listening and not self._claimer.flags_can_change:
            await self._alarm.wait(seconds)
        else:
            await self._wait_for_slots(seconds)  # one that ends may have added some

    async def _wait_for_slots(self, seconds: float) -> None:
        """Wait for a job to end. A job that ended during the last claim may have added others that it did not see."""
        if self._has_slot_ended:
            self._has_slot_ended = False
            return
        self._waits_for_slots = True
        await self._alarm.wait(seconds)
        self._waits_for_slots = False

    def _pause_after(self, claimed: Claimed) -> float:
        due_in = claimed.next_due_in
        return self._poll_seconds if due_in is None else min(self._poll_seconds, max(0.0, due_in))
