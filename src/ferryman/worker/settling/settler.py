"""Writes outcomes to the database: in batches, under the fence, until they are written.

Outcomes that arrive during one write go with the next, so the batches grow by themselves when the worker is busy.
A write that fails is tried again for as long as the worker runs. A write that PostgreSQL refuses because of one job's
data is split until that job is alone, and its outcome is then replaced by one that can be stored. A job for which even
that is refused stays locked, for recovery or a person to look at: it must not hold up the others.

See `ferryman.worker.settling.buffers` for how outcomes wait, and how completions are lent to claims.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from ferryman.errors import FerrymanError
from ferryman.worker.background import keep_doing
from ferryman.worker.settling.buffers import NO_LOAN, LendingBuffer, OutcomeBuffer
from ferryman.worker.settling.outcomes import (
    Completed,
    CompletedByHandler,
    Failed,
    Outcome,
    Settlement,
)
from ferryman.worker.settling.writers import CompletionWriter, HandlerCompletionWriter, ReleaseWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.settling.buffers import Loan
    from ferryman.worker.settling.writers import SettlementRoute

logger = logging.getLogger("ferryman.worker")

_UNSTORABLE = Failed("the outcome of this attempt could not be stored by PostgreSQL; see the log of the worker")


class Follower(Protocol):
    """A part that is notified of each write."""

    def settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """Take note of the settlements of one write that were written, and of those that were refused.

        It must be quick, and hand over what takes time.
        """
        ...


class Settler:
    """Takes outcomes. Notifies its followers of each one once it was written, or refused because the claim was lost.

    lends: True if claim statements may write plain completions along
    """

    def __init__(
        self,
        database: TimedDatabase,
        *,
        complete_delay: float = 0.0,
        fail_delay: float = 0.0,
        lends: bool = False,
    ) -> None:
        self._is_closed = False
        self._left_locked: list[Claim] = []
        self._followers: Sequence[Follower] = ()
        self._routes: Sequence[tuple[SettlementRoute, Mapping[type[Outcome], OutcomeBuffer]]] = ()
        completions = CompletionWriter(database)
        self._completions = (
            LendingBuffer(completions, self)
            if lends and complete_delay <= 0
            else OutcomeBuffer(completions, self, delay=complete_delay)
        )
        self._releases = OutcomeBuffer(ReleaseWriter(database), self, delay=fail_delay)
        self._by_handlers = OutcomeBuffer(HandlerCompletionWriter(database), self)
        self._buffers: Sequence[OutcomeBuffer] = (self._completions, self._releases, self._by_handlers)

    def tell(self, *followers: Follower) -> None:
        """Notify these followers of each write from now on, in this order."""
        self._followers = (*self._followers, *followers)

    def add_route(self, route: SettlementRoute) -> None:
        """Write outcomes of some claims by another route. Call it before `run`; the first that takes a claim wins."""
        buffers = {writer: OutcomeBuffer(writer, self) for writer in route.writers.values()}
        self._routes = (*self._routes, (route, {kind: buffers[writer] for kind, writer in route.writers.items()}))
        self._buffers = (*self._buffers, *buffers.values())

    @property
    def unsettled(self) -> int:
        """How many outcomes are not written yet."""
        return sum(buffer.unsettled for buffer in self._buffers)

    def settle(self, claim: Claim, outcome: Outcome) -> None:
        """Take an outcome; it is written soon."""
        for route, buffers in self._routes:
            if route.takes(claim):
                if type(outcome) in buffers:
                    buffers[type(outcome)].put(Settlement(claim, outcome))
                    return
                break
        match outcome:
            case Completed():
                buffer = self._completions
            case CompletedByHandler():
                buffer = self._by_handlers
            case _:
                buffer = self._releases
        buffer.put(Settlement(claim, outcome))

    @property
    def is_completing(self) -> bool:
        """True while completions are being written. The write can block on a row that another session has locked."""
        return self._completions.is_writing

    def lend(self, worker_id: str) -> Loan:
        """Lend completions of this worker id to a claim statement, which writes them along; usually there are none."""
        return self._completions.lend(worker_id) if isinstance(self._completions, LendingBuffer) else NO_LOAN

    def report(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """Notify the followers of the settlements that were written, and of those that were refused."""
        if written or refused:
            for follower in self._followers:
                follower.settled(written, refused)

    async def run(self) -> None:
        """Write outcomes as they come, until cancelled."""
        async with asyncio.TaskGroup() as duties:
            for buffer in self._buffers:
                duties.create_task(keep_doing(buffer.run, buffer.duty), name=buffer.duty)

    async def run_until_closed(self) -> None:
        """Write outcomes as they come, and continue when cancelled before `close`.

        A handler's own task that ends the program makes the loop cancel everything at once. Outcomes must still be
        written then.
        """
        while True:
            try:
                await self.run()
            except asyncio.CancelledError:
                if self._is_closed:
                    raise

    def close(self) -> None:
        """Let the next cancellation end `run_until_closed`."""
        self._is_closed = True

    async def flush(self) -> None:
        """Return when everything taken so far is written."""
        # Not all buffers at once: an outcome that cannot be stored moves to another one.
        while self.unsettled:
            for buffer in self._buffers:
                buffer.hurry()
                await buffer.empty.wait()

    def leave_locked(self, claim: Claim) -> None:
        """Write nothing about a job: a hook wants it to stay locked, or nothing can be written."""
        self._left_locked.append(claim)

    @property
    def left_locked(self) -> Sequence[Claim]:
        """The claims whose jobs stay locked although they have ended."""
        return self._left_locked

    @property
    def held_claims(self) -> list[Claim]:
        """The claims of outcomes that are not written yet, or never will be."""
        waiting = (settlement.claim for buffer in self._buffers for settlement in buffer.settlements)
        return [*self._left_locked, *waiting]

    def replace(self, settlement: Settlement, error: Exception) -> None:
        """Settle a job in another way when PostgreSQL refuses to store how it ended."""
        job_id = settlement.claim.job_id
        if settlement.outcome is _UNSTORABLE:
            logger.error(
                "could not record how job %d ended, because PostgreSQL rejects every change of its row; the job stays "
                "locked until this worker has ended and recovery releases it. Correct the row before that: %s",
                job_id,
                error,
                extra={"event": "job_left_locked", "job_id": job_id},
            )
            self.leave_locked(settlement.claim)
            return
        logger.error(
            "PostgreSQL cannot store how job %d ended; recording a plain failure instead: %s",
            job_id,
            error,
            exc_info=None if isinstance(error, FerrymanError) else error,
            extra={"event": "outcome_unstorable", "job_id": job_id},
        )
        self.settle(settlement.claim, _UNSTORABLE)
