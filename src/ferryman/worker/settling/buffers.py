"""Outcomes that wait to be written. Each kind has its own statement, and so its own buffer."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol, Self

from msgspec.structs import replace

from ferryman.database.failures import DATA_ERRORS, LOCK_NOT_AVAILABLE, sqlstate_of
from ferryman.database.retrying import Retrying
from ferryman.errors import DatabaseUnavailableError, FerrymanError, NotConnectedError
from ferryman.worker import sync_points
from ferryman.worker.alarm import Alarm
from ferryman.worker.settling.blocked_outcomes import BlockedOutcomes
from ferryman.worker.settling.outcomes import claimed_in_one_name, unwritten

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from ferryman.worker.settling.outcomes import Settlement
    from ferryman.worker.settling.settler import Settler
    from ferryman.worker.settling.writers import SettlementWriter

logger = logging.getLogger("ferryman.worker")

BATCH = 1_000
SECONDS_OF_SKIPPING = 10.0
"""After one row was found locked by another session, locked rows are skipped for this long."""
TRIES_AFTER_UNEXPECTED_ERRORS = 3
"""How often an outcome that meets an unexpected error is tried before it is replaced."""


class OutcomeBuffer:
    """Settlements of one kind, on their way into the database.

    Settlements whose rows other sessions hold wait apart and are tried again, so that each delays only itself.

    settler: reports settlements that were written, and replaces those that cannot be
    delay: seconds to wait for more before each write
    """

    def __init__(self, writer: SettlementWriter, settler: Settler, *, delay: float = 0.0) -> None:
        self.duty = writer.duty
        self.empty = asyncio.Event()
        self.empty.set()
        self._writer = writer
        self._settler = settler
        self._delay = delay
        self._waiting: list[Settlement] = []
        self._writing: Sequence[Settlement] = ()
        self._blocked = BlockedOutcomes()
        self._skips_until = 0.0
        self._alarm = Alarm()
        self._hurry = asyncio.Event()
        self._retrying = Retrying(self.duty, logger=logger)

    @property
    def unsettled(self) -> int:
        """How many settlements are not written yet."""
        return len(self._waiting) + len(self._writing) + len(self._blocked)

    @property
    def is_writing(self) -> bool:
        """True while a write is under way, so that the next settlement would have to wait."""
        return bool(self._writing)

    @property
    def settlements(self) -> list[Settlement]:
        """The settlements that are not known to be written."""
        return [*self._writing, *self._blocked, *self._waiting]

    def put(self, settlement: Settlement) -> None:
        """Add a settlement, to be written soon."""
        if not self._waiting:
            self.empty.clear()
            self._alarm.ring()
        self._waiting.append(settlement)

    def hurry(self) -> None:
        """Write at once, without waiting for more."""
        self._hurry.set()

    async def run(self) -> None:
        """Write settlements as they come, until cancelled."""
        # A run that was cancelled had begun to write these, and perhaps has written them.
        self._waiting, self._writing = [*_doubted(self._writing), *self._waiting], ()
        while True:
            # Both in turn: however many are blocked, the others are written.
            if self._blocked.pause <= 0:
                self._writing = self._blocked.take(BATCH)
                await self._write_until_done(skips=True)
            if self._waiting:
                await self._gather()
                self._writing = self._waiting[: min(BATCH, claimed_in_one_name(self._waiting))]
                self._waiting = self._waiting[len(self._writing) :]
                await self._write_until_done()
            if not self.unsettled:
                self.empty.set()
            if not self._waiting and self._blocked.pause > 0:
                if not self._blocked:
                    self._hurry.clear()
                await self._alarm.wait(self._blocked.pause)

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
            blocked: Sequence[Settlement] = ()
            try:
                blocked = await self._write(part, skips)
            except Exception as error:  # noqa: BLE001 - the buffer must continue after any error
                tries += 1
                if not await self._judge(error, part, skips=skips, tries=tries):
                    continue
                if len(part) > 1:
                    size, tries = len(part) // 2, 0
                    continue
                self._settler.replace(part[0], error)
            else:
                self._retrying.is_over()
            self._blocked.has_tried(part, blocked)
            self._writing = self._writing[len(part) :]
            size, tries = len(self._writing), 0

    async def _write(self, part: Sequence[Settlement], skips: bool) -> Sequence[Settlement]:
        """Write these settlements and report them. Returns those to try again."""
        written = await self._writer.write(part, skips=skips)
        self._settler.report(written.written, written.refused)
        if not written.unclear:
            return written.blocked
        # Only after the report: the others are written, even if this question fails.
        explained = await self._writer.explain(written.unclear)
        self._settler.report(explained.written, explained.refused)
        return [*written.blocked, *explained.blocked]

    async def _judge(self, error: Exception, part: Sequence[Settlement], *, skips: bool, tries: int) -> bool:
        """Decide about a write that failed. True if the data of one of these caused the error.

        Otherwise, return when they may be tried again. Marks what may have been written as uncertain.
        """
        if not isinstance(error, FerrymanError):
            # An unexpected error may be the fault of one outcome, and may have come after the write.
            self._writing = [*_doubted(part), *self._writing[len(part) :]]
            if len(part) > 1 or tries >= TRIES_AFTER_UNEXPECTED_ERRORS:
                return True
            await asyncio.sleep(self._retrying.pause_after(error))
            return False
        state = sqlstate_of(error) or ""
        if state == LOCK_NOT_AVAILABLE and not skips:
            self._skips_until = time.monotonic() + SECONDS_OF_SKIPPING
            return False
        if isinstance(error, DatabaseUnavailableError) and not isinstance(error, NotConnectedError):
            self._writing = _doubted(self._writing)
        if state.startswith(DATA_ERRORS):
            return True
        await asyncio.sleep(self._retrying.pause_after(error))
        return False


class LendingBuffer(OutcomeBuffer):
    """Completions that the next claim statement writes along, which saves a round trip and a commit.

    Completions that were not written come back, and are then written as usual.
    """

    def __init__(self, writer: SettlementWriter, settler: Settler) -> None:
        super().__init__(writer, settler)
        self._lent: Sequence[Settlement] = ()

    @property
    def unsettled(self) -> int:
        """How many settlements are not written yet."""
        return super().unsettled + len(self._lent)

    @property
    def settlements(self) -> list[Settlement]:
        """The settlements that are not known to be written."""
        return [*self._lent, *super().settlements]

    def lend(self, worker_id: str) -> Loan:
        """Lend waiting completions to a claim statement, which writes them along; see `Loan`.

        Only those of this worker id that have no queue and are certainly not written yet.
        """
        plain: list[Settlement] = []
        others: list[Settlement] = []
        for each in self._waiting:
            (plain if len(plain) < BATCH and _is_plain(each, worker_id) else others).append(each)
        self._lent, self._waiting = plain, others
        return Loan(self, plain)

    def has_written(self, lent: Sequence[Settlement]) -> None:
        """Note that these settlements were written, and report them."""
        self._lent = ()
        if lent:
            sync_points.reach("settle_committed")
            self._settler.report(lent, ())
        if not self.unsettled:
            self.empty.set()

    def take_back(self, lent: Sequence[Settlement], *, is_uncertain: bool = False) -> None:
        """Take back settlements that were not written along, and write them.

        is_uncertain: True if they may be written already
        """
        self._lent = ()
        if lent:
            self._waiting[:0] = [replace(each, is_uncertain=is_uncertain, was_lent=True) for each in lent]
            self.empty.clear()  # `has_written` may just have taken it for empty
            self._alarm.ring()

    async def _gather(self) -> None:
        if any(_is_plain(each, each.claim.worker_id) for each in self._waiting):
            # A claim that was woken at the same moment may want to write them along.
            await asyncio.sleep(0)


class Loan:
    """Completions that a claim statement writes along, used in a `with` block that says which were written.

    A block that ends with an error gives them back; unless nothing was sent, they are in doubt.
    """

    __slots__ = ("_buffer", "_is_open", "_settlements")

    def __init__(self, buffer: LendingBuffer | None, settlements: Sequence[Settlement]) -> None:
        self._buffer = buffer
        self._settlements = settlements
        self._is_open = True

    @property
    def keys(self) -> list[tuple[int, int]]:
        """The job id and the token of each completion."""
        return [(each.claim.job_id, each.claim.token) for each in self._settlements]

    def completed(self, job_ids: Collection[int] | None) -> None:
        """Note which completions were written, by the ids of their jobs; None: all of them."""
        self._is_open = False
        if self._buffer is None:
            return
        lent = self._settlements
        others = [] if job_ids is None else unwritten(lent, {*job_ids})
        left = {each.claim for each in others}
        self._buffer.has_written([each for each in lent if each.claim not in left] if left else lent)
        self._buffer.take_back(others)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_open and self._buffer is not None:
            self._buffer.take_back(self._settlements, is_uncertain=not isinstance(error, NotConnectedError))


NO_LOAN = Loan(None, ())


class Lender(Protocol):
    """A part that has completions which a claim can write along."""

    def lend(self, worker_id: str) -> Loan:
        """Lend completions of this worker id to a claim statement; usually there are none."""
        ...


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
