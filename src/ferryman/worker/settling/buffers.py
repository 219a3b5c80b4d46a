"""Where outcomes wait to be written: each kind in a lane of its own, since each has a statement of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ferryman.database.failures import DATA_ERRORS, LOCK_NOT_AVAILABLE, sqlstate_of
from ferryman.database.retrying import Retrying
from ferryman.errors import DatabaseUnavailableError, FerrymanError, NotConnectedError
from ferryman.worker.alarm import Alarm
from ferryman.worker.settling.held_up import HeldUp
from ferryman.worker.settling.outcomes import claimed_in_one_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ferryman.worker.settling.outcomes import Settlement

    Write = Callable[[Sequence[Settlement], bool], Awaitable[Sequence[Settlement]]]

logger = logging.getLogger("ferryman.worker")

BATCH = 1_000
SECONDS_OF_SKIPPING = 10.0
"""Where one row was held by somebody, others will be: for so long it is not tried to wait for them."""
TRIES_AFTER_UNEXPECTED_ERRORS = 3
"""How often one outcome is tried that meets an error which nobody expected, before it is replaced."""


class Lane:
    """Settlements of one kind, on their way into the database.

    Those whose rows others hold wait apart and are tried again and again, so that each delays nobody but itself.

    write: writes some of them, or raises; gives back those whose rows others hold. Told to skip these, it does not wait
        for them at all; otherwise it may give up instead, and have written nothing
    replace: settles one in another way, because it cannot be written
    delay: seconds to wait for more before each write
    """

    def __init__(
        self,
        duty: str,
        write: Write,
        replace: Callable[[Settlement, Exception], None],
        *,
        delay: float = 0.0,
    ) -> None:
        self.duty = duty
        self.empty = asyncio.Event()
        self.empty.set()
        self._write = write
        self._replace = replace
        self._delay = delay
        self._waiting: list[Settlement] = []
        self._writing: Sequence[Settlement] = ()
        self._held_up = HeldUp()
        self._skips_until = 0.0
        self._alarm = Alarm()
        self._hurry = asyncio.Event()
        self._trouble = Retrying(duty, logger=logger)

    @property
    def unsettled(self) -> int:
        """How many are not written yet."""
        return len(self._waiting) + len(self._writing) + len(self._held_up)

    @property
    def is_writing(self) -> bool:
        """Whether the next one would have to wait, if only for a moment."""
        return bool(self._writing)

    @property
    def settlements(self) -> list[Settlement]:
        """Those that are not written yet, as far as anybody knows."""
        return [*self._writing, *self._held_up, *self._waiting]

    def put(self, settlement: Settlement) -> None:
        """Take one more."""
        if not self._waiting:
            self.empty.clear()
            self._alarm.ring()
        self._waiting.append(settlement)

    def hurry(self) -> None:
        """Gather no longer."""
        self._hurry.set()

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        # What a run that was cancelled had begun to write, and perhaps has written.
        self._waiting, self._writing = [*_doubted(self._writing), *self._waiting], ()
        while True:
            # Both in turn: however many are held up, others go on.
            if self._held_up.pause <= 0:
                self._writing = self._held_up.take(BATCH)
                await self._write_until_done(skips=True)
            if self._waiting:
                await self._gather()
                self._writing = self._waiting[: min(BATCH, claimed_in_one_name(self._waiting))]
                self._waiting = self._waiting[len(self._writing) :]
                await self._write_until_done()
            if not self.unsettled:
                self.empty.set()
            if not self._waiting and self._held_up.pause > 0:
                if not self._held_up:
                    self._hurry.clear()
                await self._alarm.wait(self._held_up.pause)

    async def _gather(self) -> None:
        if self._delay > 0:
            try:
                async with asyncio.timeout(self._delay):
                    await self._hurry.wait()
            except TimeoutError:
                return

    async def _write_until_done(self, *, skips: bool = False) -> None:
        size, tries = len(self._writing), 0
        while self._writing:
            part = self._writing[:size]
            skips = skips or time.monotonic() < self._skips_until
            held_up: Sequence[Settlement] = ()
            try:
                held_up = await self._write(part, skips)
            except Exception as error:  # noqa: BLE001 - whatever it is, the lane goes on
                tries += 1
                if not await self._is_their_fault(error, part, skips=skips, tries=tries):
                    continue
                if len(part) > 1:
                    size, tries = len(part) // 2, 0
                    continue
                self._replace(part[0], error)
            else:
                self._trouble.is_over()
            self._held_up.has_tried(part, held_up)
            self._writing = self._writing[len(part) :]
            size, tries = len(self._writing), 0

    async def _is_their_fault(self, error: Exception, part: Sequence[Settlement], *, skips: bool, tries: int) -> bool:
        """Whether the error comes from the data of one of these. If not, comes back when they may be tried again."""
        if not isinstance(error, FerrymanError):
            # Nobody expected it. It may be the fault of one outcome, and may have come after the write.
            self._writing = [*_doubted(part), *self._writing[len(part) :]]
            if len(part) > 1 or tries >= TRIES_AFTER_UNEXPECTED_ERRORS:
                return True
            await asyncio.sleep(self._trouble.pause_after(error))
            return False
        state = sqlstate_of(error) or ""
        if state == LOCK_NOT_AVAILABLE and not skips:
            self._skips_until = time.monotonic() + SECONDS_OF_SKIPPING
            return False
        if isinstance(error, DatabaseUnavailableError) and not isinstance(error, NotConnectedError):
            self._writing = _doubted(self._writing)
        if state.startswith(DATA_ERRORS):
            return True
        await asyncio.sleep(self._trouble.pause_after(error))
        return False


class LendingLane(Lane):
    """Lends what waits to one who is about to send a statement anyway, and can write it in passing.

    That saves a round trip and a commit. What was not written comes back, and is written as if nothing had been tried.

    report: gets what was written in passing
    """

    def __init__(
        self,
        duty: str,
        write: Write,
        replace: Callable[[Settlement, Exception], None],
        *,
        report: Callable[[Sequence[Settlement]], None],
    ) -> None:
        super().__init__(duty, write, replace)
        self._report = report
        self._lent: Sequence[Settlement] = ()

    @property
    def unsettled(self) -> int:
        """How many are not written yet."""
        return super().unsettled + len(self._lent)

    @property
    def settlements(self) -> list[Settlement]:
        """Those that are not written yet, as far as anybody knows."""
        return [*self._lent, *super().settlements]

    def borrow(self, worker_id: str) -> Sequence[Settlement]:
        """What waits and can be written in passing: claims in this name, without a queue, with nothing in doubt."""
        plain: list[Settlement] = []
        others: list[Settlement] = []
        for each in self._waiting:
            (plain if len(plain) < BATCH and _is_plain(each, worker_id) else others).append(each)
        self._lent, self._waiting = plain, others
        return plain

    def has_written(self, borrowed: Sequence[Settlement]) -> None:
        """Report these."""
        self._lent = ()
        if borrowed:
            self._report(borrowed)
        if not self.unsettled:
            self.empty.set()

    def give_back(self, borrowed: Sequence[Settlement], *, is_uncertain: bool = False) -> None:
        """Write these after all.

        is_uncertain: whether they may have been written
        """
        self._lent = ()
        if borrowed:
            self._waiting[:0] = [replace(each, is_uncertain=is_uncertain, was_lent=True) for each in borrowed]
            self.empty.clear()  # `has_written` may just have taken it for empty
            self._alarm.ring()

    async def _gather(self) -> None:
        if any(_is_plain(each, each.claim.worker_id) for each in self._waiting):
            # Whoever was woken at the same moment may want to write them.
            await asyncio.sleep(0)


def _is_plain(settlement: Settlement, worker_id: str) -> bool:
    claim = settlement.claim
    return (
        claim.queue_id is None
        and not claim.later_tokens
        and not settlement.is_uncertain
        and not settlement.was_lent
        and claim.worker_id == worker_id
    )


def _doubted(settlements: Sequence[Settlement]) -> list[Settlement]:
    return [replace(settlement, is_uncertain=True) for settlement in settlements]
