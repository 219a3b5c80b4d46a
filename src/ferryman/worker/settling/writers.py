"""The statements that write outcomes: one writer for each kind, all under the fence of their claims."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from datetime import UTC
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ferryman.database.steps import Transaction
from ferryman.errors import FerrymanError
from ferryman.queries.settle import PATIENCE, complete_claims, find_jobs, lock_claims, release_claims
from ferryman.worker import sync_points
from ferryman.worker.settling.outcomes import (
    Completed,
    CompletedByHandler,
    Failed,
    Interrupted,
    Settlement,
    Snoozed,
    Unstarted,
    Written,
    as_written,
    unwritten,
    was_written_before,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.database.steps import Call, Row, Steps
    from ferryman.database.timed import TimedDatabase
    from ferryman.worker.claiming.claims import Claim, Owner
    from ferryman.worker.settling.outcomes import ChildCrash, Ending, Outcome

logger = logging.getLogger("ferryman.worker")

_encoder = msgspec.json.Encoder()


class SettlementWriter(Protocol):
    """Writes settlements of one kind. It is asked again, for all or for half of them, when it raises."""

    duty: str
    """Its work, as log lines name it: "completing jobs"."""

    async def write(self, settlements: Sequence[Settlement], *, skips: bool) -> Written:
        """Write these settlements with one statement. All their claims have the same worker id.

        skips: True leaves out rows that other sessions have locked; they come back as `blocked`. False may raise an
            error because of such rows; then nothing was written
        """
        ...

    async def explain(self, unclear: Sequence[Settlement]) -> Written:
        """Find out why these settlements were not written. Asked after the outcome of those that were is reported."""
        ...


class SettlementRoute(Protocol):
    """Another way for the outcomes of some claims. `Settler.add_route` takes it."""

    writers: Mapping[type[Outcome], SettlementWriter]
    """The writer of each type of outcome. Outcomes of other types go the plain way."""

    def takes(self, claim: Claim) -> bool:
        """True if outcomes of this claim take this route. Asked for each job that ends, so it must be cheap."""
        ...


class FencedWriter(ABC):
    """Writes by a statement that leaves lost claims alone, and asks who owns the jobs that it did not find."""

    duty: str

    def __init__(self, database: TimedDatabase) -> None:
        self._database = database

    @abstractmethod
    def call(self, settlements: Sequence[Settlement]) -> Call:
        """The statement that writes these settlements."""

    @abstractmethod
    def written(self, rows: Sequence[Row], tried: Sequence[Settlement]) -> Mapping[int, bool]:
        """The ids of the jobs that were written, and for each whether it has no attempt left."""

    async def write(self, settlements: Sequence[Settlement], *, skips: bool) -> Written:
        """Write these settlements with one statement."""
        rows, blocked = await self._send(settlements, skips=skips)
        tried = settlements if not blocked else _without(settlements, blocked)
        written = self.written(rows, tried)
        sync_points.reach("settle_committed")
        if len(written) == len(settlements):
            return Written(as_written(settlements, written))
        unclear = unwritten(tried, written)
        return Written(as_written(_without(tried, unclear), written), unclear=unclear, blocked=blocked)

    async def explain(self, unclear: Sequence[Settlement]) -> Written:
        """Find out why these settlements were not written.

        A few may still be ours, if their locks were renewed while they were being written.
        """
        owners = await self.owners(unclear)
        if owners is None:
            return Written((), blocked=unclear)
        ours = [each for each in unclear if each.claim.is_of(owners.get(each.claim.job_id))]
        others = _without(unclear, ours)
        done = [each for each in others if was_written_before(each, owners)]
        return Written(done, _without(others, done), blocked=ours)

    async def owners(self, settlements: Sequence[Settlement]) -> dict[int, Owner] | None:
        """The owners of these jobs, as far as the jobs are still there; None if that is not known.

        Asked after a write, which was carried out: it must not be reported as failed because of this question.
        """
        job_ids = [settlement.claim.job_id for settlement in settlements]
        try:
            rows = await self._database.fetch(find_jobs(job_ids))
        except FerrymanError as error:
            logger.warning(
                "the outcomes of %d jobs were not written, and the worker could not read whether the jobs are still "
                "its own; writing them again: %s",
                len(settlements),
                error,
                extra={"event": "owners_unknown", "count": len(settlements)},
            )
            return None
        return {job_id: (locked_by, token) for job_id, locked_by, token in rows}

    async def _send(
        self, settlements: Sequence[Settlement], *, skips: bool
    ) -> tuple[Sequence[Row], Sequence[Settlement]]:
        """Send the statement: its rows, and the settlements that were left out because their rows are locked.

        A lock that is being renewed changes its token while a settlement waits for it, and that of its queue may follow
        later. So what may be renewed is locked first.
        """
        if not skips and not any(settlement.claim.later_tokens for settlement in settlements):
            return await self._database.fetch(self.call(settlements)), ()
        return await self._database.run(self._settle_what_is_free(settlements))

    def _settle_what_is_free(
        self, settlements: Sequence[Settlement]
    ) -> Steps[tuple[Sequence[Row], Sequence[Settlement]]]:
        """Lock the rows that no other session has locked, and settle these."""
        yield Transaction()
        keys = [key for settlement in settlements for key in settlement.claim.keys]
        rows = yield lock_claims(settlements[0].claim.worker_id, keys)
        busy = {job_id for (job_id,) in rows}
        free = [settlement for settlement in settlements if settlement.claim.job_id not in busy]
        written: Sequence[Row] = ()
        if free:
            written = yield self.call(free)
        return written, [settlement for settlement in settlements if settlement.claim.job_id in busy]


class CompletionWriter(FencedWriter):
    """Deletes the jobs that are done."""

    duty = "completing jobs"

    def call(self, settlements: Sequence[Settlement]) -> Call:
        """The statement that writes these settlements."""
        return completion(settlements)

    def written(self, rows: Sequence[Row], tried: Sequence[Settlement]) -> Mapping[int, bool]:
        """The ids of the jobs that are gone. A row without any stands for all of them."""
        ids = [settlement.claim.job_id for settlement in tried]
        return {job_id: False for (done,) in rows for job_id in (ids if done is None else done)}


class ReleaseWriter(FencedWriter):
    """Gives back the jobs that are not done: failed, snoozed, interrupted or never started."""

    duty = "giving jobs back"

    def call(self, settlements: Sequence[Settlement]) -> Call:
        """The statement that writes these settlements."""
        return giving_back(settlements)

    def written(self, rows: Sequence[Row], tried: Sequence[Settlement]) -> Mapping[int, bool]:  # noqa: ARG002 - its rows say all
        """The ids of the jobs that were given back, and whether they have no attempt left."""
        return {row[0]: row[1] for row in rows}


class HandlerCompletionWriter(ReleaseWriter):
    """Settles jobs that handlers completed in their own transactions: gives back those that are still there."""

    duty = "checking jobs that were completed by their handlers"

    async def write(self, settlements: Sequence[Settlement], *, skips: bool) -> Written:
        """Give back what is still there. What is gone is unclear: another worker may have completed it by now."""
        rows, blocked = await self._send(settlements, skips=skips)
        tried = settlements if not blocked else _without(settlements, blocked)
        written = self.written(rows, tried)
        there = [each for each in tried if each.claim.job_id in written]
        given_back = [_otherwise(each) for each in there if isinstance(each.outcome, CompletedByHandler)]
        return Written(as_written(given_back, written), unclear=_without(tried, there), blocked=blocked)

    async def explain(self, unclear: Sequence[Settlement]) -> Written:
        """Find out which of these are done: the jobs that are gone."""
        owners = await self.owners(unclear)
        if owners is None:
            return Written((), blocked=unclear)
        gone = [each for each in unclear if each.claim.job_id not in owners]
        done = [
            Settlement(each.claim, Completed(each.outcome.seconds))
            for each in gone
            if isinstance(each.outcome, CompletedByHandler)
        ]
        there = _without(unclear, gone)
        ours = [each for each in there if each.claim.is_of(owners[each.claim.job_id])]
        return Written(done, [_otherwise(each) for each in _without(there, ours)], blocked=ours)


def completion(settlements: Sequence[Settlement]) -> Call:
    """Delete finished jobs. All their claims have the same worker id."""
    claims = [settlement.claim.key for settlement in settlements]
    for settlement in settlements:
        if settlement.claim.later_tokens:
            claims += settlement.claim.keys[1:]
    return complete_claims(settlements[0].claim.worker_id, claims, patience=PATIENCE)


def giving_back(settlements: Sequence[Settlement]) -> Call:
    """Give jobs back that were not completed. All their claims have the same worker id."""
    releases = [_release(settlement, token) for settlement in settlements for _, token, _ in settlement.claim.keys]
    encoded = _encoder.encode(releases).decode()
    return release_claims(settlements[0].claim.worker_id, encoded, patience=PATIENCE)


def _otherwise(settlement: Settlement) -> Settlement:
    """The settlement that holds if the handler's transaction was not committed."""
    outcome = settlement.outcome
    return Settlement(settlement.claim, outcome.otherwise if isinstance(outcome, CompletedByHandler) else outcome)


def _without(settlements: Sequence[Settlement], others: Sequence[Settlement]) -> list[Settlement]:
    left_out = {each.claim for each in others}
    return [each for each in settlements if each.claim not in left_out]


def _release(settlement: Settlement, token: int) -> dict[str, Any]:
    claim, outcome = settlement.claim, settlement.outcome
    ending = outcome.otherwise if isinstance(outcome, CompletedByHandler) else outcome
    return {"id": claim.job_id, "token": token, "queue_id": claim.queue_id, **_effect(ending)}


def _effect(outcome: Ending) -> dict[str, Any]:
    """The release as plain values: hooks and handlers may have given subclasses, which cannot be encoded."""
    match outcome:
        case Failed():
            effect = "fail" if outcome.is_final else "retry"
            return {
                "effect": effect, "error": outcome.error, "delay": outcome.delay, "payload": outcome.payload_json,
                "clears": outcome.crash is None, **_crash(outcome.crash),
            }  # fmt: skip
        case Snoozed():
            return {"effect": "return", "delay": outcome.delay, "clears": True}
        case Interrupted():
            effect = "retry" if outcome.uses_attempt else "return"
            return {
                "effect": effect, "error": outcome.error, "delay": outcome.delay,
                "run_at": None if outcome.run_at is None else outcome.run_at.astimezone(UTC).isoformat(),
                "attempts": None if outcome.attempts is None else int(outcome.attempts),
            }  # fmt: skip
        case Unstarted():
            return {"effect": "return", "delay": outcome.delay}
        case Completed():
            raise AssertionError("completions have a writer of their own")


def _crash(crash: ChildCrash | None) -> dict[str, Any]:
    if crash is None:
        return {}
    return {"most_crashes": crash.most, "crash_window": crash.window, "last_error": crash.last_error}
