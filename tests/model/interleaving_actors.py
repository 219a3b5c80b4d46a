"""The actors of interleaved histories: workers that know what they hold, and others with open transactions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ferryman.database.failures import sqlstate_of
from ferryman.errors import LeaseLostError
from ferryman.leases import Lease
from ferryman.queries.claim import ClaimStatement, read_clock, return_lost_claims
from ferryman.worker.claiming.claims import reply_from_rows
from ferryman.worker.claiming.held_claims import HeldClaims
from ferryman.worker.claiming.renewal import LockRenewal
from ferryman.worker.running.start_marks import StartMarks
from ferryman.worker.settling.buffers import OutcomeBuffer
from ferryman.worker.settling.outcomes import Completed, CompletedByHandler, Failed, Settlement
from ferryman.worker.settling.writers import CompletionWriter, HandlerCompletionWriter, ReleaseWriter
from tests.model.interleaving_lines import DEADLOCK, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from ferryman.database.steps import Call, Row
    from ferryman.worker.claiming.claims import Claim, ClaimReply
    from ferryman.worker.settling.outcomes import Outcome
    from ferryman.worker.settling.writers import SettlementWriter
    from tests.model.interleaving_lines import Conductor, Line

CLOCK = "select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)"
FAILED = Failed("boom", 0.0)


@dataclass(eq=False)
class Answers:
    """What a settlement has reported."""

    done: list[Settlement] = field(default_factory=list)
    refused: list[Settlement] = field(default_factory=list)

    def buffer_of(self, writer: SettlementWriter) -> OutcomeBuffer:
        """What has `writer` write, and tells of it here."""
        return OutcomeBuffer(writer, self)  # type: ignore[arg-type]

    def report(self, done: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        self.done += done
        self.refused += refused


def one_per_job(claims: Iterable[Claim]) -> list[Claim]:
    """Of a job that was lost and claimed again in the same name, only the last claim."""
    return [*{claim.job_id: claim for claim in claims}.values()]


class Worker:
    """A worker: what it has heard of, and its lines.

    known: its claims, from the reply that told of them until their settlement is reported
    in_hand: those of them that a statement is about which must come back first
    in_handlers: those whose handlers are about to complete them in transactions of their own
    by_handlers: those that their handlers have completed so, whether that is committed or not
    suspicion: True if a reply was lost, and not all is known
    """

    def __init__(self, conductor: Conductor, number: int) -> None:
        self.id = f"worker {number}"
        self.conductor = conductor
        self.claiming = conductor.line(f"claim of {self.id}")
        self.cut_off = conductor.line(f"lost claim of {self.id}")
        self.completing = conductor.line(f"completion of {self.id}")
        self.giving_back = conductor.line(f"release of {self.id}")
        self.aside = conductor.line(f"renewal or mark of {self.id}")
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.known: list[Claim] = []
        self.in_hand: set[Claim] = set()
        self.in_handlers: set[Claim] = set()
        self.by_handlers: set[Claim] = set()
        self.suspicion = False
        self.is_looking = False
        self.is_renewing = False

    # What it knows

    @property
    def unsettled(self) -> list[Claim]:
        """Claims that are neither being settled nor about to be marked: their locks may be renewed."""
        return [claim for claim in self.known if claim not in self.in_hand]

    @property
    def running(self) -> list[Claim]:
        """Those of them that the worker may settle."""
        return [claim for claim in self.unsettled if claim not in self.in_handlers | self.by_handlers]

    @property
    def plain(self) -> list[Claim]:
        """Those of them that it may complete in passing."""
        return [claim for claim in self.running if claim.queue_id is None and not claim.later_tokens]

    @property
    def handled(self) -> list[Claim]:
        """Claims whose handlers have completed them, and have returned."""
        return [claim for claim in self.unsettled if claim in self.by_handlers - self.in_handlers]

    def knows(self, job_id: int, token: int | None) -> bool:
        """True if it will settle what is locked under this token, or suspects that there is such a claim."""
        return self._suspects(token) or any((job_id, token) == key[:2] for key in self.keys)

    def knows_queue(self, queue_id: int, token: int | None) -> bool:
        """The same for the lock of a queue."""
        return self._suspects(token) or any((token, queue_id) == key[1:] for key in self.keys)

    def claim_of(self, job_id: int, token: int | None) -> Claim | None:
        """The claim by which it holds a job."""
        return next((claim for claim in self.known if (job_id, token) in {key[:2] for key in claim.keys}), None)

    @property
    def keys(self) -> list[tuple[int, int, int]]:
        """All that it knows, once for each token."""
        return [key for claim in self.known for key in claim.keys]

    def _suspects(self, token: int | None) -> bool:
        return self.suspicion and token is not None

    # What it asks

    async def claim(self, task_ids: Sequence[int], *, lent: Sequence[Claim], **given: Any) -> ClaimReply:
        done = [(claim.job_id, claim.token) for claim in lent]
        return reply_from_rows(await self.claiming.fetch(self._claim(task_ids, done=done, **given)), self.id)

    async def claim_unheard(self, task_ids: Sequence[int], **given: Any) -> None:
        """Claim, and never hear of it."""
        await self.cut_off.fetch(self._claim(task_ids, **given))

    def _claim(self, task_ids: Sequence[int], *, search: ClaimStatement = ClaimStatement.FRONT, **given: Any) -> Call:
        return search.value(self.id, task_ids, now=None, forbidden_flags=None, **given)

    async def return_lost(self) -> bool:
        """Give back what it never heard of. True if nothing is left."""
        assert self.suspicion
        call = return_lost_claims(self.id, after=None, known=self.keys)
        [(_, is_any_left)] = await self.claiming.fetch(call)
        return not is_any_left

    async def complete(self, claims: Sequence[Claim], *, skips: bool) -> Answers:
        answers = Answers()
        buffer = answers.buffer_of(CompletionWriter(self.completing))  # type: ignore[arg-type]
        await buffer._write([Settlement(claim, Completed(0.0)) for claim in claims], skips)
        return answers

    async def give_back(self, claims: Sequence[Claim], outcome: Outcome, *, skips: bool) -> Answers:
        answers = Answers()
        buffer = answers.buffer_of(ReleaseWriter(self.giving_back))  # type: ignore[arg-type]
        await buffer._write([Settlement(claim, outcome) for claim in claims], skips)
        return answers

    async def check(self, claims: Sequence[Claim], *, skips: bool) -> Answers:
        """Settle what handlers have completed, or failed to complete, in transactions of their own."""
        answers = Answers()
        buffer = answers.buffer_of(HandlerCompletionWriter(self.giving_back))  # type: ignore[arg-type]
        outcome = CompletedByHandler(0.0, FAILED)
        await buffer._write([Settlement(claim, outcome) for claim in claims], skips)
        return answers

    async def complete_in(self, claim: Claim, line: Line) -> bool:
        """Complete a job as its handler does, in a transaction of its own. False if the job was lost."""
        lease = Lease(SCHEMA, self.id, [claim.key])
        lease.learn_keys = lambda: claim.keys
        try:
            await lease.complete_in(line.connection)
        except LeaseLostError:
            return False
        return True

    async def renew(self, claims: Sequence[Claim]) -> dict[Claim, str]:
        """Renew locks; what came of each, unless nothing was asked about it."""
        renewals = _Renewals(self)
        await renewals._renew(self.id, claims)
        return renewals.results

    async def mark(self, claims: Sequence[Claim]) -> dict[Claim, bool | None]:
        """Mark the start of jobs: whether each may start, or None if another transaction holds its row."""
        loop = asyncio.get_running_loop()
        futures: dict[Claim, asyncio.Future[bool]] = {claim: loop.create_future() for claim in claims}
        await StartMarks(self.aside, "requeue")._write_group(self.id, futures)  # type: ignore[arg-type]
        return {claim: future.result() if future.done() else None for claim, future in futures.items()}


class _Renewals(LockRenewal):
    """The real ones, on a worker's line."""

    def __init__(self, worker: Worker) -> None:
        running: Any = worker.unsettled
        progress: Any = SimpleNamespace(writing=asyncio.Lock())
        connection: Any = SimpleNamespace(fetch=self._fetch)
        super().__init__(connection, running, progress, HeldClaims())
        self.results: dict[Claim, str] = {}
        self._worker = worker

    async def _fetch(self, call: Call) -> Sequence[Row]:
        # Not at a gate, which is for the statement that follows.
        is_clock = call.statement is read_clock().statement
        return self._worker.conductor.ask(CLOCK) if is_clock else await self._worker.aside.fetch(call)

    def _take(self, claim: Claim, result: str) -> None:
        self.results[claim] = result


class Other:
    """An actor with a transaction that stays open: an application, a handler, an operator, a sweep.

    deleted: jobs that are gone if it commits
    """

    def __init__(self, conductor: Conductor, name: str) -> None:
        self.line: Line = conductor.line(name)
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.is_open = False
        self.deleted: set[int] = set()

    async def act(self, work: Callable[[Line], Coroutine[Any, Any, Any]]) -> Any:
        """Do something in the transaction, which is begun if need be. A victim of a deadlock starts over."""
        if not self.is_open:
            await self.line.query("begin")
            self.is_open = True
        try:
            return await work(self.line)
        except Exception as error:
            if sqlstate_of(error) == DEADLOCK:
                await self.line.query("rollback")
                self.forget()
            raise

    async def end(self, *, commits: bool) -> set[int]:
        """End the transaction. The jobs that it has deleted come back."""
        await self.line.query("commit" if commits else "rollback")
        deleted = self.deleted if commits else set()
        self.forget()
        return deleted
