"""Writes outcomes to the database: in batches, under the fence, until they are written.

What gathers while one write is under way goes with the next, so the batches grow by themselves when the worker is busy.
A write that fails is tried again for as long as the worker lives. A write that PostgreSQL refuses because of one job's
data is split until that job is alone, and its outcome is then replaced by one that can be stored. A job for which even
that is refused stays locked, for recovery or a person to look at: it must not hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.database.failures import sqlstate_of
from ferryman.errors import FerrymanError
from ferryman.queries import working
from ferryman.worker import sync_points
from ferryman.worker.alarm import Alarm
from ferryman.worker.outcomes import Completed, Failed, Interrupted, Outcome, Snoozed, Unstarted
from ferryman.worker.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ferryman.database.steps import Call, Row
    from ferryman.worker.claims import Claim
    from ferryman.worker.connection import WorkerConnection

logger = logging.getLogger("ferryman.worker")

BATCH = 1_000
_DATA_ERRORS = ("22", "23", "44", "54", "P0")
"""Classes of SQLSTATE that blame the data: out of range, constraint, view, too large, a trigger's own refusal."""
_UNSTORABLE = Failed("the outcome of this attempt could not be stored by PostgreSQL; see the log of the worker")

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Settlement:
    """A claim and how it ended."""

    claim: Claim
    outcome: Outcome


class Settler:
    """Takes outcomes, and reports each one after it was written, or refused because the claim was lost."""

    def __init__(
        self,
        connection: WorkerConnection,
        worker_id: str,
        *,
        report: Callable[[Settlement, bool], Awaitable[None]],
        complete_delay: float = 0.0,
        fail_delay: float = 0.0,
    ) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._report = report
        self._lanes = (
            _Lane("completing jobs", complete_delay, self._write_completed, self._replace),
            _Lane("giving jobs back", fail_delay, self._write_released, self._replace),
        )

    @property
    def unsettled(self) -> int:
        """How many outcomes are not written yet."""
        return sum(lane.unsettled for lane in self._lanes)

    def settle(self, claim: Claim, outcome: Outcome) -> None:
        """Take an outcome; it is written soon."""
        lane = self._lanes[0 if isinstance(outcome, Completed) else 1]
        lane.put(Settlement(claim, outcome))

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        async with asyncio.TaskGroup() as duties:
            for lane in self._lanes:
                duties.create_task(lane.run(), name=lane.duty)

    async def flush(self) -> None:
        """Come back when everything taken so far is written."""
        # Not all lanes at once: an outcome that cannot be stored goes on to the other lane.
        while self.unsettled:
            for lane in self._lanes:
                lane.hurry()
                await lane.empty.wait()

    async def _write_completed(self, settlements: Sequence[Settlement]) -> None:
        claims = [(s.claim.job_id, s.claim.token, s.claim.queue_id or 0) for s in settlements]
        await self._write(settlements, working.complete_claims(self._worker_id, claims))

    async def _write_released(self, settlements: Sequence[Settlement]) -> None:
        releases = _encoder.encode([_release(settlement) for settlement in settlements]).decode()
        await self._write(settlements, working.release_claims(self._worker_id, releases))

    async def _write(self, settlements: Sequence[Settlement], call: Call) -> None:
        written = {row[0]: row for row in await self._connection.fetch(call)}
        sync_points.reach("settle_committed")
        newest = _newest_tokens(settlements) if len(written) < len(settlements) else {}
        for settlement in settlements:
            job_id, token = settlement.claim.job_id, settlement.claim.token
            row = written.get(job_id) if token == newest.get(job_id, token) else None
            await self._report(_as_written(settlement, row), row is not None)

    def _replace(self, settlement: Settlement, error: FerrymanError) -> None:
        """Settle a job in another way when PostgreSQL refuses to store how it ended."""
        job_id = settlement.claim.job_id
        if settlement.outcome is _UNSTORABLE:
            logger.error("job %d stays locked, because PostgreSQL refuses any outcome of it: %s", job_id, error)
            return
        logger.error("the outcome of job %d could not be stored: %s", job_id, error)
        self.settle(settlement.claim, _UNSTORABLE)


class _Lane:
    """Settlements of one kind, on their way into the database."""

    def __init__(
        self,
        duty: str,
        delay: float,
        write: Callable[[Sequence[Settlement]], Awaitable[None]],
        replace: Callable[[Settlement, FerrymanError], None],
    ) -> None:
        self.duty = duty
        self.empty = asyncio.Event()
        self.empty.set()
        self._delay = delay
        self._write = write
        self._replace = replace
        self._waiting: list[Settlement] = []
        self._writing: Sequence[Settlement] = ()
        self._alarm = Alarm()
        self._hurry = asyncio.Event()
        self._trouble = Trouble(duty)

    @property
    def unsettled(self) -> int:
        return len(self._waiting) + len(self._writing)

    def put(self, settlement: Settlement) -> None:
        self._waiting.append(settlement)
        self.empty.clear()
        self._alarm.ring()

    def hurry(self) -> None:
        """Gather no longer."""
        self._hurry.set()

    async def run(self) -> None:
        while True:
            while not self._waiting:
                self._hurry.clear()
                await self._alarm.wait(3600)
            await self._gather()
            self._writing, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            await self._write_until_done()
            if not self._waiting:
                self.empty.set()

    async def _gather(self) -> None:
        if self._delay > 0:
            try:
                async with asyncio.timeout(self._delay):
                    await self._hurry.wait()
            except TimeoutError:
                return

    async def _write_until_done(self) -> None:
        size = len(self._writing)
        while self._writing:
            part = self._writing[:size]
            try:
                await self._write(part)
            except FerrymanError as error:
                if not (sqlstate_of(error) or "").startswith(_DATA_ERRORS):
                    await asyncio.sleep(self._trouble.pause_after(error))
                    continue
                if len(part) > 1:
                    size = len(part) // 2
                    continue
                self._replace(part[0], error)
            else:
                self._trouble.is_over()
            self._writing = self._writing[len(part) :]
            size = len(self._writing)


def _as_written(settlement: Settlement, row: Row | None) -> Settlement:
    """A job that was taken over or removed while it ran has no attempt left, which only the database knows."""
    match settlement.outcome, row:
        case Failed() as outcome, (_, True):
            return Settlement(settlement.claim, replace(outcome, is_final=True))
        case _:
            return settlement


def _newest_tokens(settlements: Sequence[Settlement]) -> dict[int, int]:
    """By job: a worker may have lost a job and claimed it again, and then only the last claim can have been written."""
    newest: dict[int, int] = {}
    for settlement in settlements:
        claim = settlement.claim
        newest[claim.job_id] = max(claim.token, newest.get(claim.job_id, claim.token))
    return newest


def _release(settlement: Settlement) -> dict[str, Any]:
    claim = settlement.claim
    return {"id": claim.job_id, "token": claim.token, "queue_id": claim.queue_id, **_effect(settlement.outcome)}


def _effect(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Failed():
            effect = "fail" if outcome.is_final else "retry"
            return {
                "effect": effect, "error": outcome.error, "delay": outcome.delay, "payload": outcome.payload_json,
            }  # fmt: skip
        case Snoozed():
            return {"effect": "return", "delay": outcome.delay}
        case Interrupted():
            return {"effect": "return", "error": outcome.error, "delay": outcome.delay}
        case Unstarted():
            return {"effect": "return"}
        case Completed():
            raise AssertionError("completions have a lane of their own")
