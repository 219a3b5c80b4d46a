"""Where outcomes wait to be written: each kind in a lane of its own, since each has a statement of its own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ferryman.database.failures import sqlstate_of
from ferryman.errors import DatabaseUnavailableError, FerrymanError, NotConnectedError
from ferryman.queries.working import LOCK_NOT_AVAILABLE
from ferryman.worker.alarm import Alarm
from ferryman.worker.held_up import HeldUp
from ferryman.worker.outcomes import claimed_in_one_name
from ferryman.worker.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ferryman.worker.outcomes import Settlement

    Write = Callable[[Sequence[Settlement], bool], Awaitable[Sequence[Settlement]]]

BATCH = 1_000
SECONDS_OF_SKIPPING = 10.0
"""Where one row was held by somebody, others will be: for so long it is not tried to wait for them."""
_DATA_ERRORS = ("22", "23", "44", "54", "P0")
"""Classes of SQLSTATE that blame the data: out of range, constraint, view, too large, a trigger's own refusal."""


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
        replace: Callable[[Settlement, FerrymanError], None],
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
        self._trouble = Trouble(duty)

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
        size = len(self._writing)
        while self._writing:
            part = self._writing[:size]
            skips = skips or time.monotonic() < self._skips_until
            held_up: Sequence[Settlement] = ()
            try:
                held_up = await self._write(part, skips)
            except FerrymanError as error:
                state = sqlstate_of(error) or ""
                if state == LOCK_NOT_AVAILABLE and not skips:
                    self._skips_until = time.monotonic() + SECONDS_OF_SKIPPING
                    continue
                if isinstance(error, DatabaseUnavailableError) and not isinstance(error, NotConnectedError):
                    self._writing = _doubted(self._writing)
                if not state.startswith(_DATA_ERRORS):
                    await asyncio.sleep(self._trouble.pause_after(error))
                    continue
                if len(part) > 1:
                    size = len(part) // 2
                    continue
                self._replace(part[0], error)
            else:
                self._trouble.is_over()
            self._held_up.has_tried(part, held_up)
            self._writing = self._writing[len(part) :]
            size = len(self._writing)


class LendingLane(Lane):
    """Lends what waits to one who is about to send a statement anyway, and can write it in passing.

    That saves a round trip and a commit. What was not written comes back, and is written as if nothing had been tried.

    tell: gets what was written in passing
    """

    def __init__(
        self,
        duty: str,
        write: Write,
        replace: Callable[[Settlement, FerrymanError], None],
        *,
        tell: Callable[[Sequence[Settlement]], Awaitable[None]],
    ) -> None:
        super().__init__(duty, write, replace)
        self._tell = tell
        self._lent: Sequence[Settlement] = ()
        self._written: list[Settlement] = []
        self._news = Alarm()

    @property
    def unsettled(self) -> int:
        """How many are not written yet, or not told."""
        return super().unsettled + len(self._lent) + len(self._written)

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
        """Tell about these."""
        self._lent = ()
        if borrowed:
            self._written += borrowed
            self._news.ring()

    def give_back(self, borrowed: Sequence[Settlement], *, is_uncertain: bool = False) -> None:
        """Write these after all.

        is_uncertain: whether they may have been written
        """
        self._lent = ()
        if borrowed:
            self._waiting[:0] = [replace(each, is_uncertain=is_uncertain, was_lent=True) for each in borrowed]
            self._alarm.ring()

    async def run_telling(self) -> None:
        """Tell what was written in passing, until cancelled. Apart from writing: that may have to wait for somebody."""
        while True:
            while not self._written:
                await self._news.wait(3600)
            told = [*self._written]
            await self._tell(told)
            del self._written[: len(told)]
            if not self.unsettled:
                self.empty.set()

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
