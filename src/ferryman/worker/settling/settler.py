"""Writes outcomes to the database: in batches, under the fence, until they are written.

What gathers while one write is under way goes with the next, so the batches grow by themselves when the worker is busy.
A write that fails is tried again for as long as the worker lives. A write that PostgreSQL refuses because of one job's
data is split until that job is alone, and its outcome is then replaced by one that can be stored. A job for which even
that is refused stays locked, for recovery or a person to look at: it must not hold up the others.

See `ferryman.worker.settling.buffers` for how outcomes wait, and how completions are lent to claims.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ferryman.errors import FerrymanError
from ferryman.queries.settle import find_jobs
from ferryman.worker import sync_points
from ferryman.worker.duties.background import keep_doing
from ferryman.worker.settling.buffers import Lane, LendingLane
from ferryman.worker.settling.outcomes import (
    Completed,
    CompletedByHandler,
    Failed,
    Outcome,
    Settlement,
)
from ferryman.worker.settling.writers import completion, giving_back, settling_what_is_free

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ferryman.database.steps import Call, Row
    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim, Owner

logger = logging.getLogger("ferryman.worker")

_UNSTORABLE = Failed("the outcome of this attempt could not be stored by PostgreSQL; see the log of the worker")


class Settler:
    """Takes outcomes, and reports each one after it was written, or refused because the claim was lost.

    report: gets the settlements of one write that were written, and those that were refused; it must be quick, and
        hand over what takes time
    lends: whether somebody asks for completions to write in passing, whenever there are any
    """

    def __init__(
        self,
        connection: TimedDatabase,
        *,
        report: Callable[[Sequence[Settlement], Sequence[Settlement]], None],
        complete_delay: float = 0.0,
        fail_delay: float = 0.0,
        lends: bool = False,
    ) -> None:
        self._connection = connection
        self._report = report
        self._is_closed = False
        self._left_locked: list[Claim] = []
        self._completions = (
            LendingLane("completing jobs", self._write_completed, self._replace, report=self._report_lent)
            if lends and complete_delay <= 0
            else Lane("completing jobs", self._write_completed, self._replace, delay=complete_delay)
        )
        self._lanes = (
            self._completions,
            Lane("giving jobs back", self._write_released, self._replace, delay=fail_delay),
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

    def give_back(self, borrowed: Sequence[Settlement], *, is_uncertain: bool) -> None:
        """Say that these were not written, as far as anybody knows.

        is_uncertain: whether they may have been
        """
        if isinstance(self._completions, LendingLane):
            self._completions.give_back(borrowed, is_uncertain=is_uncertain)

    def has_completed(self, borrowed: Sequence[Settlement], done: Collection[int] | None) -> None:
        """Say which of these were written, by the ids of their jobs; None if it was all of them."""
        if isinstance(self._completions, LendingLane):
            others = [] if done is None else _unwritten(borrowed, set(done))
            left = {each.claim for each in others}
            self._completions.has_written([each for each in borrowed if each.claim not in left] if left else borrowed)
            self._completions.give_back(others)

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        async with asyncio.TaskGroup() as duties:
            for lane in self._lanes:
                duties.create_task(keep_doing(lane.run, lane.duty), name=lane.duty)

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

    async def _write_completed(self, settlements: Sequence[Settlement], skips: bool) -> Sequence[Settlement]:
        rows, held_up = await self._written(settlements, completion, skips=skips)
        tried = {settlement.claim.job_id for settlement in settlements} - {each.claim.job_id for each in held_up}
        written = {job_id: False for (done,) in rows for job_id in (tried if done is None else done)}
        return [*held_up, *await self._report_written(settlements, written, held_up)]

    def _report_lent(self, settlements: Sequence[Settlement]) -> None:
        sync_points.reach("settle_committed")
        self._report(settlements, ())

    async def _write_released(self, settlements: Sequence[Settlement], skips: bool) -> Sequence[Settlement]:
        rows, held_up = await self._written(settlements, giving_back, skips=skips)
        written: dict[int, bool] = {row[0]: row[1] for row in rows}
        return [*held_up, *await self._report_written(settlements, written, held_up)]

    async def _write_checked(self, settlements: Sequence[Settlement], skips: bool) -> Sequence[Settlement]:
        """What handlers have completed is gone; what is still there was not committed, and ends otherwise."""
        rows, held_up = await self._written(settlements, giving_back, skips=skips)
        written: dict[int, bool] = {row[0]: row[1] for row in rows}
        left_out = {settlement.claim for settlement in held_up}
        # First: by now another worker may have completed what was just given back.
        given_back = [
            Settlement(claim, outcome.otherwise)
            for claim, outcome in ((each.claim, each.outcome) for each in settlements)
            if isinstance(outcome, CompletedByHandler) and claim.job_id in written and claim not in left_out
        ]
        self._report(_as_written(given_back, written), ())
        others = [each for each in settlements if each.claim not in left_out and each.claim.job_id not in written]
        if not others:
            return held_up
        owners = await self._owners(others)
        if owners is None:
            return [*held_up, *others]
        done: list[Settlement] = []
        refused: list[Settlement] = []
        undecided: list[Settlement] = [*held_up]
        for settlement in others:
            match settlement:
                case Settlement(claim, CompletedByHandler(seconds=seconds)) if claim.job_id not in owners:
                    done.append(Settlement(claim, Completed(seconds)))
                case Settlement(claim) if claim.is_of(owners[claim.job_id]):
                    undecided.append(settlement)
                case Settlement(claim, CompletedByHandler(otherwise=otherwise)):
                    refused.append(Settlement(claim, otherwise))
        self._report(done, refused)
        return undecided

    async def _written(
        self, settlements: Sequence[Settlement], settling: Callable[[Sequence[Settlement]], Call], *, skips: bool
    ) -> tuple[Sequence[Row], Sequence[Settlement]]:
        """Write them; what comes back of the call, and those that were left out because others hold their rows.

        A lock that is being renewed changes its token while a settlement waits for it, and that of its queue may follow
        later. So what may be renewed is locked first.
        """
        if not skips and not any(settlement.claim.later_tokens for settlement in settlements):
            return await self._connection.fetch(settling(settlements)), ()
        return await self._connection.run(settling_what_is_free(settlements, settling))

    async def _report_written(
        self, settlements: Sequence[Settlement], written: Mapping[int, bool], held_up: Sequence[Settlement]
    ) -> Sequence[Settlement]:
        """Tell of those that were written, by job, and those that were refused. Gives back those that are still ours.

        Such are rare: their locks were renewed while they were being written.
        """
        sync_points.reach("settle_committed")
        if len(written) == len(settlements):
            self._report(_as_written(settlements, written), ())
            return ()
        left_out = {settlement.claim for settlement in held_up}
        tried = [settlement for settlement in settlements if settlement.claim not in left_out]
        unwritten = _unwritten(tried, written)
        unclear = {each.claim for each in unwritten}
        # Reported before anything is asked: whatever becomes of the question, these are written.
        self._report(_as_written([each for each in tried if each.claim not in unclear], written), ())
        if not unwritten:
            return ()
        owners = await self._owners(unwritten)
        if owners is None:
            return unwritten
        ours = {each.claim for each in unwritten if each.claim.is_of(owners.get(each.claim.job_id))}
        refused = {each.claim for each in unwritten if not _was_written_before(each, owners)} - ours
        done = [each for each in unwritten if each.claim not in ours and each.claim not in refused]
        self._report(_as_written(done, written), [each for each in unwritten if each.claim in refused])
        return [each for each in unwritten if each.claim in ours]

    async def _owners(self, settlements: Sequence[Settlement]) -> dict[int, Owner] | None:
        """Who has locked these jobs, and by which token, as far as they are still there; None if that is not known.

        Asked after a write, which was carried out: it must not be reported as failed because of this question.
        """
        job_ids = [settlement.claim.job_id for settlement in settlements]
        try:
            rows = await self._connection.fetch(find_jobs(job_ids))
        except FerrymanError as error:
            logger.warning(
                "could not ask who owns %d jobs whose outcomes were not written; retrying: %s",
                len(settlements),
                error,
                extra={"event": "owners_unknown", "count": len(settlements)},
            )
            return None
        return {job_id: (locked_by, token) for job_id, locked_by, token in rows}

    def leave_locked(self, claim: Claim) -> None:
        """Write nothing about a job, because somebody wants that, or nothing can be written."""
        self._left_locked.append(claim)

    @property
    def left_locked(self) -> Sequence[Claim]:
        """The claims whose jobs stay locked although they have ended."""
        return self._left_locked

    @property
    def held_claims(self) -> list[Claim]:
        """The claims of outcomes that are not written yet, or never will be."""
        return [*self._left_locked, *(settlement.claim for lane in self._lanes for settlement in lane.settlements)]

    def _replace(self, settlement: Settlement, error: Exception) -> None:
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
            exc_info=None if isinstance(error, FerrymanError) else error,
            extra={"event": "outcome_unstorable", "job_id": job_id},
        )
        self.settle(settlement.claim, _UNSTORABLE)


def _was_written_before(settlement: Settlement, owners: Mapping[int, Owner]) -> bool:
    """Whether its first try has worked, as far as one can tell: the job is gone, or nobody has it."""
    if not settlement.is_uncertain or settlement.claim.job_id not in owners:
        return settlement.is_uncertain
    locked_by, _ = owners[settlement.claim.job_id]
    return locked_by is None and not isinstance(settlement.outcome, Completed)


def _as_written(settlements: Sequence[Settlement], written: Mapping[int, bool]) -> list[Settlement]:
    """The same, with what only the database knows: whether failed jobs have an attempt left.

    A job that was taken over or removed while it ran has none.
    """
    return [
        replace(settlement, outcome=replace(settlement.outcome, is_final=True))
        if isinstance(settlement.outcome, Failed) and written.get(settlement.claim.job_id)
        else settlement
        for settlement in settlements
    ]


def _unwritten(settlements: Sequence[Settlement], written: Collection[int]) -> list[Settlement]:
    """Those that were not ours any more."""
    newest = _newest_claims(settlements)
    return [each for each in settlements if each.claim.job_id not in written or each.claim not in newest]


def _newest_claims(settlements: Sequence[Settlement]) -> set[Claim]:
    """Of a job that was lost and claimed again, only the last claim counts."""
    newest: dict[int, Claim] = {}
    for settlement in settlements:
        claim = settlement.claim
        if claim.token >= newest.setdefault(claim.job_id, claim).token:
            newest[claim.job_id] = claim
    return {*newest.values()}
