"""One interleaved history, told step by step: workers claim and settle while the transactions of others are open.

Each step begins a statement, lets one pass its gate, or ends a transaction. A statement that must wait for a row waits,
and continues when a later step frees the row. After each step `Ledger` checks what is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferryman.queries.claim import ClaimStatement
from ferryman.queries.sweep import forget_dead_workers, lock_interrupted_jobs, recover_jobs
from ferryman.worker.settling.outcomes import Completed
from tests.model.interleaving_actors import FAILED, Answers, Other, Worker, one_per_job
from tests.model.interleaving_ledger import Ledger

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from ferryman.worker.claiming.claims import Claim, Claimed
    from ferryman.worker.settling.outcomes import Outcome
    from tests.model.interleaving_lines import Conductor, Errand, Gate, Line

    Work = Callable[[Line], Coroutine[Any, Any, set[int]]]
    """Work in a transaction. The ids of jobs that it has deleted come back."""

WORKERS = 2
OTHERS = 3
HISTORIES_BETWEEN_VACUUMS = 100
PREPARE = """
    insert into graphile_worker._private_tasks (identifier) values ('task');
    insert into graphile_worker._private_job_queues (queue_name) values ('q'), ('r');
"""
CLEAR = """
    delete from graphile_worker._private_jobs;
    delete from graphile_worker._ferryman_started_jobs;
    delete from graphile_worker._ferryman_crashes;
    delete from graphile_worker._ferryman_lost_workers;
    update graphile_worker._private_job_queues set locked_by = null, locked_at = null
    where locked_by is not null or locked_at is not null;
"""
ADD = """
    select (graphile_worker.add_job(
        'task', queue_name => $1, job_key => $2, job_key_mode => $3, run_at => now() - interval '1 hour'
    )).id
"""
REMOVE = "select id, locked_at is null from graphile_worker.remove_job($1) where id is not null"
USES_OF_JOBS = {
    "lock": "select from graphile_worker._private_jobs where id = $1 for update",
    "share": "select from graphile_worker._private_jobs where id = $1 for key share",
    "change": "update graphile_worker._private_jobs set priority = 1 - priority, flags = '{}' where id = $1",
    "delete": "delete from graphile_worker._private_jobs where id = $1 returning id",
}
USES_OF_QUEUES = {
    "lock": "select from graphile_worker._private_job_queues where queue_name = $1 for update",
    "share": "select from graphile_worker._private_job_queues where queue_name = $1 for key share",
    "change": "update graphile_worker._private_job_queues set queue_name = queue_name where queue_name = $1",
}


class Cast:
    """The actors with their lines, for one history after the other."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor
        conductor.script(PREPARE)
        [(self.task_id,)] = conductor.ask("select id from graphile_worker._private_tasks")
        self.workers = [Worker(conductor, number) for number in range(1, WORKERS + 1)]
        self.others = [Other(conductor, f"transaction {number}") for number in range(1, OTHERS + 1)]
        self.sweeper = Other(conductor, "sweep")
        self._histories = 0

    def clear(self) -> None:
        """Begin anew."""
        self.conductor.end_all()
        for worker in self.workers:
            worker.forget()
        for other in (*self.others, self.sweeper):
            other.forget()
        self.conductor.script(CLEAR)
        self._histories += 1
        if self._histories % HISTORIES_BETWEEN_VACUUMS == 0:
            self.conductor.script("vacuum graphile_worker._private_jobs, graphile_worker._private_job_queues")


class History:
    """What may happen. Each step returns when all statements have gone as far as they can, and checks the ledger.

    stop: a gate at which the statement stops until `go_on`
    skips: the settlement leaves rows alone that others have locked; otherwise it waits for them
    ends: if the transaction did not have to wait, it is committed (True) or rolled back (False) at once
    """

    def __init__(self, cast: Cast, witness: Counter[str]) -> None:
        cast.clear()
        self.conductor = cast.conductor
        self.workers = cast.workers
        self.others = cast.others
        self.sweeper = cast.sweeper
        self.witness = witness
        self.ledger = Ledger(self.conductor, witness)
        self.is_sound = True
        self._task_ids = [cast.task_id]

    @property
    def stopped(self) -> list[Errand]:
        """Statements that stand at a gate."""
        return [errand for errand in self.conductor.errands if errand.is_stopped]

    @property
    def open_others(self) -> list[Other]:
        """Transactions that can be ended."""
        return [other for other in (*self.others, self.sweeper) if other.line.is_idle and other.is_open]

    def add(self, *, queue: str | None = None, key: str | None = None) -> int:
        """Add a job at once, in a transaction of its own; no other may hold its key. Its id comes back."""
        self.is_sound = False
        [(job_id,)] = self.conductor.ask(ADD, queue, key, "replace")
        self._check()
        return int(job_id)

    # Workers

    def claim(
        self,
        worker: Worker,
        *,
        search: ClaimStatement = ClaimStatement.FRONT,
        wanted: int = 1,
        window: int = 100,
        lent: Sequence[Claim] = (),
        stop: Gate | None = None,
    ) -> None:
        """Claim jobs, and complete finished ones in passing."""
        worker.in_hand.update(lent)

        def then(claimed: Claimed) -> None:
            done = [each for each in one_per_job(lent) if claimed.done is None or each.job_id in claimed.done]
            worker.in_hand.difference_update(lent)
            self._has_settled(worker, "done", done, are_gone=True)
            worker.known += claimed.claims
            self.ledger.said("claimed", worker, claimed.claims)
            self.witness["completed in passing"] += len(done)

        work = worker.claim(self._task_ids, search=search, wanted=wanted, window=window, lent=lent)
        self._begin(worker.claiming, work, then, stop=stop)

    def claim_unheard(
        self,
        worker: Worker,
        *,
        search: ClaimStatement = ClaimStatement.FRONT,
        wanted: int = 1,
        window: int = 100,
        stop: Gate | None = None,
    ) -> None:
        """Claim jobs. The connection is cut: the worker never hears of them."""
        worker.suspicion = True
        work = worker.claim_unheard(self._task_ids, search=search, wanted=wanted, window=window)
        self._begin(worker.cut_off, work, lambda _: None, stop=stop)

    def look_for_lost_claims(self, worker: Worker, *, stop: Gate | None = None) -> None:
        """Give back what the worker never heard of."""
        has_ended = worker.cut_off.is_idle
        worker.is_looking = True

        def then(is_all: bool) -> None:
            worker.is_looking = False
            self.witness["lost claims given back" if is_all else "lost claims held up"] += 1
            if is_all and has_ended:
                worker.suspicion = False

        self._begin(worker.claiming, worker.return_lost(), then, stop=stop)

    def renew(self, worker: Worker, claims: Sequence[Claim], *, stop: Gate | None = None) -> None:
        """Renew locks. The claims may be settled before the statement has come back."""
        worker.is_renewing = True

        def then(results: Mapping[Claim, str]) -> None:
            worker.is_renewing = False
            for claim, result in results.items():
                if result in ("renewed", "lost"):
                    self.ledger.said(result, worker, [claim])
                else:
                    self.witness[f"renewal: {result}"] += 1

        self._begin(worker.aside, worker.renew([*claims]), then, stop=stop)

    def mark(self, worker: Worker, claims: Sequence[Claim], *, stop: Gate | None = None) -> None:
        """Mark the start of jobs."""
        claims = [*claims]
        worker.in_hand.update(claims)

        def then(may_start: Mapping[Claim, bool | None]) -> None:
            worker.in_hand.difference_update(claims)
            self.ledger.said("may start", worker, [claim for claim in claims if may_start[claim] is True])
            self.ledger.said("lost", worker, [claim for claim in claims if may_start[claim] is False])

        self._begin(worker.aside, worker.mark(claims), then, stop=stop)

    def complete(
        self, worker: Worker, claims: Sequence[Claim], *, skips: bool = False, stop: Gate | None = None
    ) -> None:
        """Complete jobs."""
        claims = [*claims]
        work = worker.complete(claims, skips=skips)
        self._settle(worker, worker.completing, claims, work, skips=skips, stop=stop)

    def give_back(
        self,
        worker: Worker,
        claims: Sequence[Claim],
        outcome: Outcome = FAILED,
        *,
        skips: bool = False,
        stop: Gate | None = None,
    ) -> None:
        """Give jobs back: failed, snoozed or not started."""
        claims = [*claims]
        work = worker.give_back(claims, outcome, skips=skips)
        self._settle(worker, worker.giving_back, claims, work, skips=skips, stop=stop)

    def check_handled(
        self, worker: Worker, claims: Sequence[Claim], *, skips: bool = False, stop: Gate | None = None
    ) -> None:
        """Settle jobs that their handlers have completed, perhaps in transactions that are still open."""
        claims = [*claims]
        work = worker.check(claims, skips=skips)
        self._settle(worker, worker.giving_back, claims, work, skips=skips, stop=stop)

    def go_on(self, line: Line) -> None:
        """Let a statement pass the gate at which it stands."""
        assert line.errand is not None
        self.is_sound = False
        self.conductor.go_on(line.errand)
        self._check()

    # Others

    def use_key(self, other: Other, mode: str, key: str, *, queue: str | None = None, ends: bool | None = None) -> None:
        """Add a job by its key, or remove it."""

        async def work(line: Line) -> set[int]:
            if mode == "remove":
                return {job_id for job_id, is_deleted in await line.query(REMOVE, key) if is_deleted}
            await line.query(ADD, queue, key, mode)
            return set()

        self._act(other, work, ends=ends)

    def use_job(self, other: Other, how: str, job_id: int, *, ends: bool | None = None) -> None:
        """Lock, share, change or delete a row, claimed or not. A row that is shared can still be changed."""

        async def work(line: Line) -> set[int]:
            return {deleted for (deleted,) in await line.query(USES_OF_JOBS[how], job_id)}

        self._act(other, work, ends=ends)

    def use_queue(self, other: Other, how: str, queue: str, *, ends: bool | None = None) -> None:
        """Lock the row of a queue, or write a new version of it."""

        async def work(line: Line) -> set[int]:
            await line.query(USES_OF_QUEUES[how], queue)
            return set()

        self._act(other, work, ends=ends)

    def complete_by_handler(
        self,
        other: Other,
        worker: Worker,
        claim: Claim,
        *,
        ends: bool | None = None,
        stop: Gate | None = None,
    ) -> None:
        """Complete a job in a transaction of its handler's own, and let the handler return."""
        worker.in_handlers.add(claim)

        async def work(line: Line) -> set[int]:
            try:
                if not await worker.complete_in(claim, line):
                    return set()
            finally:
                worker.in_handlers.discard(claim)
            worker.by_handlers.add(claim)
            return {claim.job_id}

        self._act(other, work, ends=ends, stop=stop)

    def sweep(
        self,
        worker: Worker,
        effect: str = "requeue",
        *,
        locks: bool = False,
        ends: bool | None = None,
        stop: Gate | None = None,
    ) -> None:
        """Take all jobs from a worker, which lives and does not know. There is one sweep at a time.

        locks: lock the jobs by a statement of its own first, as sweeps do
        """
        decisions = [
            {
                "id": job.id, "worker_id": worker.id, "token": job.token, "effect": effect, "delay": 0,
                "started": True, "decision": "requeue", "reason": "silent",
            }
            for job in self.ledger.tables.locked_jobs
            if job.locked_by == worker.id
        ]  # fmt: skip

        async def work(line: Line) -> set[int]:
            if locks:
                await line.fetch(lock_interrupted_jobs([worker.id], after=0, batch=500))
            self.witness["swept"] += len(await line.fetch(recover_jobs("sweeper", decisions)))
            return set()

        self._act(self.sweeper, work, ends=ends, may_wait=False, stop=stop)

    def forget_worker(self, worker: Worker, *, ends: bool | None = None, stop: Gate | None = None) -> None:
        """Free the queues that a worker holds without a job, as sweeps do at last."""
        call = forget_dead_workers([{"id": worker.id, "reason": "silent", "recovered_jobs": 0}])

        async def work(line: Line) -> set[int]:
            await line.fetch(call)
            return set()

        self._act(self.sweeper, work, ends=ends, may_wait=False, stop=stop)

    def end(self, other: Other, *, commits: bool) -> None:
        """End a transaction."""
        self._begin(other.line, other.end(commits=commits), self.ledger.ended)

    # The end of the history

    def finish(self, *, commits: bool = True) -> None:
        """Let all go on, end all transactions, and settle all claims without waiting: nothing is locked then.

        commits: how transactions are ended
        """
        while self.conductor.errands or self.open_others:
            if self.stopped:
                self.go_on(self.stopped[0].line)
            else:
                self.end(self.open_others[0], commits=commits)
        for worker in self.workers:
            if worker.suspicion:
                self.look_for_lost_claims(worker)
            assert not worker.suspicion
        for _ in range(2):
            for worker in self.workers:
                if worker.running and commits:
                    self.complete(worker, worker.running, skips=True)
                elif worker.running:
                    self.give_back(worker, worker.running, skips=True)
                if worker.handled:
                    self.check_handled(worker, worker.handled, skips=True)
        assert not any(worker.known for worker in self.workers)
        assert not self.ledger.tables.locked_jobs
        assert not self.ledger.tables.locked_queues

    # How steps are taken

    def _begin(
        self,
        line: Line,
        work: Coroutine[Any, Any, Any],
        then: Callable[[Any], None],
        *,
        may_wait: bool = False,
        stop: Gate | None = None,
    ) -> None:
        self.is_sound = False
        self.conductor.begin(line, work, then, may_wait=may_wait, stop=stop)
        self._check()

    def _check(self) -> None:
        self.ledger.check(self.workers)
        self.witness["steps"] += 1
        for errand in self.conductor.errands:
            self.witness["stopped" if errand.is_stopped else "waited"] += 1
        self.is_sound = True

    def _act(
        self,
        other: Other,
        work: Work,
        *,
        ends: bool | None,
        may_wait: bool = True,
        stop: Gate | None = None,
    ) -> None:
        def then(deleted: set[int] | None) -> None:
            if deleted is None:
                self.witness["deadlocks"] += 1
            else:
                other.deleted |= deleted

        self._begin(other.line, other.act(work), then, may_wait=may_wait, stop=stop)
        if ends is not None and other in self.open_others:
            self.end(other, commits=ends)

    def _settle(
        self,
        worker: Worker,
        line: Line,
        claims: Sequence[Claim],
        work: Coroutine[Any, Any, Answers],
        *,
        skips: bool,
        stop: Gate | None,
    ) -> None:
        worker.in_hand.update(claims)

        def then(answers: Answers | None) -> None:
            worker.in_hand.difference_update(claims)
            if answers is None:
                self.witness["deadlocks"] += 1
                return
            for settlement in answers.done:
                is_gone = isinstance(settlement.outcome, Completed) and settlement.claim not in worker.by_handlers
                self._has_settled(worker, "done", [settlement.claim], are_gone=is_gone)
            self._has_settled(worker, "refused", [settlement.claim for settlement in answers.refused])
            self.witness["held up"] += len(claims) - len(answers.done) - len(answers.refused)

        self._begin(line, work, then, may_wait=not skips, stop=stop)

    def _has_settled(self, worker: Worker, how: str, claims: Sequence[Claim], *, are_gone: bool = False) -> None:
        for claim in claims:
            worker.known.remove(claim)
            worker.by_handlers.discard(claim)
        self.ledger.said(how, worker, claims)
        if are_gone:
            self.ledger.ended(claim.job_id for claim in claims)
