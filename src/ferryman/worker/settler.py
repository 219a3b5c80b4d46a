"""Writes outcomes to the database: in batches, under the fence, until they are written.

What gathers while one write is under way goes with the next, so the batches grow by themselves when the worker is busy.
A write that fails is tried again for as long as the worker lives. A write that PostgreSQL refuses because of one job's
data is split until that job is alone, and its outcome is then replaced by one that can be stored. A job for which even
that is refused stays locked, for recovery or a person to look at: it must not hold up the others.

See `ferryman.worker.lanes` for how outcomes wait, and how completions are lent to claims.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ferryman.queries import working
from ferryman.worker import sync_points
from ferryman.worker.lanes import Lane, LendingLane
from ferryman.worker.outcomes import (
    Completed,
    CompletedByHandler,
    Ending,
    Failed,
    Interrupted,
    Outcome,
    Settlement,
    Snoozed,
    Unstarted,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from ferryman.database.steps import Call, Row
    from ferryman.errors import FerrymanError
    from ferryman.worker.claims import Claim
    from ferryman.worker.connection import WorkerConnection

logger = logging.getLogger("ferryman.worker")

_UNSTORABLE = Failed("the outcome of this attempt could not be stored by PostgreSQL; see the log of the worker")

_encoder = msgspec.json.Encoder()


class Settler:
    """Takes outcomes, and reports each one after it was written, or refused because the claim was lost.

    report: gets the settlements of one write that were written, and those that were refused
    lends: whether somebody asks for completions to write in passing, whenever there are any
    """

    def __init__(
        self,
        connection: WorkerConnection,
        *,
        report: Callable[[Sequence[Settlement], Sequence[Settlement]], Awaitable[None]],
        complete_delay: float = 0.0,
        fail_delay: float = 0.0,
        lends: bool = False,
    ) -> None:
        self._connection = connection
        self._report = report
        self._is_closed = False
        self._left_locked: list[Claim] = []
        self._completions = (
            LendingLane("completing jobs", self._write_completed, self._replace, tell=self._tell_written)
            if lends and complete_delay <= 0
            else Lane("completing jobs", self._write_completed, self._replace, delay=complete_delay)
        )
        self._lanes = (
            self._completions,
            Lane("giving jobs back", self._write_released, self._replace, delay=fail_delay),
            # By itself: it waits while a handler's transaction is still open.
            Lane("checking jobs that were completed by their handlers", self._write_checked, self._replace),
        )

    @property
    def unsettled(self) -> int:
        """How many outcomes are not written yet."""
        return sum(lane.unsettled for lane in self._lanes)

    def settle(self, claim: Claim, outcome: Outcome) -> None:
        """Take an outcome; it is written soon."""
        match outcome:
            case Completed():
                lane = self._lanes[0]
            case CompletedByHandler():
                lane = self._lanes[2]
            case _:
                lane = self._lanes[1]
        lane.put(Settlement(claim, outcome))

    @property
    def is_completing(self) -> bool:
        """Whether completions are being written. That may take long, if somebody else has locked a row."""
        return self._completions.is_writing

    def borrow_completed(self, worker_id: str) -> Sequence[Settlement]:
        """Completions to write in passing: of claims in this name, without a queue. They must be given back."""
        return self._completions.borrow(worker_id) if isinstance(self._completions, LendingLane) else ()

    def give_back(self, borrowed: Sequence[Settlement]) -> None:
        """Say that nobody knows what became of these."""
        if isinstance(self._completions, LendingLane):
            self._completions.give_back(borrowed, is_uncertain=True)

    def has_completed(self, borrowed: Sequence[Settlement], done: Collection[int] | None) -> None:
        """Say which of these were written, by the ids of their jobs; None if it was all of them."""
        if isinstance(self._completions, LendingLane):
            others = [] if done is None else _unwritten(borrowed, set(done))
            self._completions.has_written([each for each in borrowed if each not in others] if others else borrowed)
            self._completions.give_back(others)

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        async with asyncio.TaskGroup() as duties:
            for lane in self._lanes:
                duties.create_task(lane.run(), name=lane.duty)
            if isinstance(self._completions, LendingLane):
                duties.create_task(self._completions.run_telling(), name="telling what was completed in passing")

    async def run_until_closed(self) -> None:
        """Write what comes, and go on when cancelled before `close`.

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
        """Let the next cancellation end it."""
        self._is_closed = True

    async def flush(self) -> None:
        """Come back when everything taken so far is written."""
        # Not all lanes at once: an outcome that cannot be stored goes on to the other lane.
        while self.unsettled:
            for lane in self._lanes:
                lane.hurry()
                await lane.empty.wait()

    async def _write_completed(self, settlements: Sequence[Settlement]) -> None:
        claims = [settlement.claim.key for settlement in settlements]
        for claim in _renewed(settlements):
            claims += claim.keys[1:]
        await self._write(settlements, working.complete_claims(settlements[0].claim.worker_id, claims))

    async def _tell_written(self, settlements: Sequence[Settlement]) -> None:
        sync_points.reach("settle_committed")
        await self._report(settlements, ())

    async def _write_released(self, settlements: Sequence[Settlement]) -> None:
        await self._write(settlements, _release_call(settlements))

    async def _write_checked(self, settlements: Sequence[Settlement]) -> None:
        """What handlers have completed is gone; what is still there was not committed, and ends otherwise."""
        written = await self._written(settlements, _release_call(settlements))
        there = await self._still_there(settlements)
        done: list[Settlement] = []
        refused: list[Settlement] = []
        for settlement in settlements:
            match settlement:
                case Settlement(claim, CompletedByHandler(seconds=seconds)) if claim.job_id not in there:
                    done.append(Settlement(claim, Completed(seconds)))
                case Settlement(claim, CompletedByHandler(otherwise=otherwise)):
                    (done if claim.job_id in written else refused).append(Settlement(claim, otherwise))
        await self._report(done, refused)

    async def _write(self, settlements: Sequence[Settlement], call: Call) -> None:
        written = await self._written(settlements, call)
        sync_points.reach("settle_committed")
        if len(written) == len(settlements):
            await self._report(_as_written(settlements, written), ())
            return
        unwritten = _unwritten(settlements, written)
        doubtful = await self._written_before([settlement for settlement in unwritten if settlement.is_uncertain])
        refused = {settlement.claim for settlement in unwritten} - doubtful
        done = [settlement for settlement in settlements if settlement.claim not in refused]
        others = [settlement for settlement in settlements if settlement.claim in refused]
        await self._report(_as_written(done, written), others)

    async def _written(self, settlements: Sequence[Settlement], call: Call) -> dict[int, Row]:
        """The rows that the call gives back, by job."""
        written = {row[0]: row for row in await self._connection.fetch(call)}
        if len(written) < len(settlements) and _renewed(settlements):
            # A lock that is renewed at the very moment of the call is neither old nor new to it, but to a second one.
            written |= {row[0]: row for row in await self._connection.fetch(call)}
        return written

    async def _written_before(self, settlements: Sequence[Settlement]) -> set[Claim]:
        """Those whose first try has worked, as far as one can tell: the job is gone, or nobody else has it."""
        if not settlements:
            return set()
        there = await self._still_there(settlements)
        return {
            settlement.claim
            for settlement in settlements
            if not (
                settlement.claim.job_id in there
                if isinstance(settlement.outcome, Completed)
                else there.get(settlement.claim.job_id)
            )
        }

    async def _still_there(self, settlements: Sequence[Settlement]) -> dict[int, str | None]:
        call = working.find_jobs([settlement.claim.job_id for settlement in settlements])
        return {int(job_id): locked_by for job_id, locked_by in await self._connection.fetch(call)}

    def leave_locked(self, claim: Claim) -> None:
        """Write nothing about a job, because somebody wants that, or nothing can be written."""
        self._left_locked.append(claim)

    @property
    def held_claims(self) -> list[Claim]:
        """The claims of outcomes that are not written yet, or never will be."""
        return [*self._left_locked, *(settlement.claim for lane in self._lanes for settlement in lane.settlements)]

    def _replace(self, settlement: Settlement, error: FerrymanError) -> None:
        """Settle a job in another way when PostgreSQL refuses to store how it ended."""
        job_id = settlement.claim.job_id
        if settlement.outcome is _UNSTORABLE:
            logger.error(
                "job %d stays locked, because PostgreSQL refuses any outcome of it: %s",
                job_id,
                error,
                extra={"event": "job_left_locked", "job_id": job_id},
            )
            self.leave_locked(settlement.claim)
            return
        logger.error(
            "the outcome of job %d could not be stored: %s",
            job_id,
            error,
            extra={"event": "outcome_unstorable", "job_id": job_id},
        )
        self.settle(settlement.claim, _UNSTORABLE)


def _as_written(settlements: Sequence[Settlement], written: Mapping[int, Row]) -> list[Settlement]:
    """The same, with what only the database knows: whether failed jobs have an attempt left."""
    return [
        _as_failed(settlement, settlement.outcome, written.get(settlement.claim.job_id))
        if isinstance(settlement.outcome, Failed)
        else settlement
        for settlement in settlements
    ]


def _as_failed(settlement: Settlement, outcome: Failed, row: Row | None) -> Settlement:
    """A job that was taken over or removed while it ran has no attempt left."""
    is_last = row is not None and row[1]
    return replace(settlement, outcome=replace(outcome, is_final=True)) if is_last else settlement


def _unwritten(settlements: Sequence[Settlement], written: Collection[int]) -> list[Settlement]:
    """Those that were not ours any more. Of a job that was lost and claimed again, only the last claim counts."""
    newest: dict[int, int] = {}
    for settlement in settlements:
        claim = settlement.claim
        newest[claim.job_id] = max(claim.token, newest.get(claim.job_id, claim.token))
    return [
        settlement
        for settlement in settlements
        if settlement.claim.job_id not in written or settlement.claim.token != newest[settlement.claim.job_id]
    ]


def _renewed(settlements: Sequence[Settlement]) -> list[Claim]:
    """The claims whose lock may have been renewed, so that they may have one of several tokens."""
    return [settlement.claim for settlement in settlements if settlement.claim.later_tokens]


def _release_call(settlements: Sequence[Settlement]) -> Call:
    releases = [_release(settlement, token) for settlement in settlements for _, token, _ in settlement.claim.keys]
    return working.release_claims(settlements[0].claim.worker_id, _encoder.encode(releases).decode())


def _release(settlement: Settlement, token: int) -> dict[str, Any]:
    claim, outcome = settlement.claim, settlement.outcome
    ending = outcome.otherwise if isinstance(outcome, CompletedByHandler) else outcome
    return {"id": claim.job_id, "token": token, "queue_id": claim.queue_id, **_effect(ending)}


def _effect(outcome: Ending) -> dict[str, Any]:
    match outcome:
        case Failed():
            effect = "fail" if outcome.is_final else "retry"
            return {
                "effect": effect, "error": outcome.error, "delay": outcome.delay, "payload": outcome.payload_json,
            }  # fmt: skip
        case Snoozed():
            return {"effect": "return", "delay": outcome.delay}
        case Interrupted():
            effect = "retry" if outcome.uses_attempt else "return"
            return {
                "effect": effect, "error": outcome.error, "delay": outcome.delay,
                "run_at": outcome.run_at, "attempts": outcome.attempts,
            }  # fmt: skip
        case Unstarted():
            return {"effect": "return"}
        case Completed():
            raise AssertionError("completions have a lane of their own")
