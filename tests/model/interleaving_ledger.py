"""What must hold in interleaved histories, whatever the statements met on their way. Looks at what is committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping, Sequence

    from ferryman.worker.claiming.claims import Claim
    from tests.model.interleaving_actors import Worker
    from tests.model.interleaving_lines import Conductor

LOOK = """
    select
        'job', job.id, job.job_queue_id, job.locked_by,
        cast(extract(epoch from job.locked_at) * 1000000 as bigint),
        cast(extract(epoch from mark.locked_at) * 1000000 as bigint)
    from graphile_worker._private_jobs as job
    left join graphile_worker._ferryman_started_jobs as mark on mark.job_id = job.id and mark.locked_by = job.locked_by
    union all
    select
        'queue', queue.id, null, queue.locked_by, cast(extract(epoch from queue.locked_at) * 1000000 as bigint), null
    from graphile_worker._private_job_queues as queue
    order by 1, 2
"""


class Job(NamedTuple):
    """A job that is committed."""

    id: int
    queue_id: int | None
    locked_by: str | None
    token: int | None
    marked: int | None
    """The token of its start mark."""


class Queue(NamedTuple):
    """A named queue."""

    id: int
    locked_by: str | None
    token: int | None


@dataclass(frozen=True)
class Tables:
    """All that is committed."""

    jobs: Mapping[int, Job]
    queues: Mapping[int, Queue]

    @property
    def locked_jobs(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.locked_by is not None]

    @property
    def locked_queues(self) -> list[Queue]:
        return [queue for queue in self.queues.values() if queue.locked_by is not None]


class Ledger:
    """Which jobs there were and how they ended, and what statements have said that is still to be checked."""

    def __init__(self, conductor: Conductor, witness: Counter[str]) -> None:
        self._conductor = conductor
        self._witness = witness
        self._seen: set[int] = set()
        self._ended: set[int] = set()
        self._said: list[tuple[str, Worker, Claim]] = []
        self.look()

    def look(self) -> None:
        """See what is committed by now."""
        rows = self._conductor.ask(LOOK)
        jobs = [Job(*row[1:]) for row in rows if row[0] == "job"]
        queues = [Queue(row[1], *row[3:5]) for row in rows if row[0] == "queue"]
        self.tables = Tables({job.id: job for job in jobs}, {queue.id: queue for queue in queues})

    def said(self, what: str, worker: Worker, claims: Iterable[Claim]) -> None:
        """Note what a statement says about claims: 'claimed', 'done', 'refused', 'renewed', 'lost', 'may start'."""
        for claim in claims:
            self._witness[what] += 1
            self._said.append((what, worker, claim))

    def ended(self, job_ids: Iterable[int]) -> None:
        """Note that jobs were deleted."""
        for job_id in job_ids:
            assert job_id not in self._ended, f"job {job_id} ended twice"
            self._ended.add(job_id)

    def check(self, workers: Sequence[Worker]) -> None:
        """See that all is well."""
        self.look()
        self._each_job_is_there_or_has_ended()
        named = {worker.id: worker for worker in workers}
        for job in self.tables.locked_jobs:
            self._is_known(job, named[str(job.locked_by)])
        for queue in self.tables.locked_queues:
            worker = named[str(queue.locked_by)]
            assert worker.knows_queue(queue.id, queue.token), f"{worker.id} does not know that it holds {queue}"
        for what, worker, claim in self._said:
            self._is_true(what, worker, claim)
        self._said.clear()

    def _each_job_is_there_or_has_ended(self) -> None:
        there = self.tables.jobs.keys()
        assert not there & self._ended, "a job has ended and is still there"
        assert there | self._ended >= self._seen, f"{self._seen - there - self._ended} vanished"
        self._seen |= there

    def _is_known(self, job: Job, worker: Worker) -> None:
        assert worker.knows(job.id, job.token), f"{worker.id} does not know that it holds {job}"
        if job.queue_id is None:
            return
        queue = self.tables.queues[job.queue_id]
        claim = worker.claim_of(job.id, job.token)
        tokens = {job.token} if claim is None else {token for _, token, _ in claim.keys}
        assert queue.locked_by == job.locked_by, f"{job} runs without its queue, {queue}"
        assert queue.token in tokens, f"{job} runs without its queue, {queue}"

    def _is_true(self, what: str, worker: Worker, claim: Claim) -> None:
        locks = [(worker.id, token) for _, token, _ in claim.keys]
        job = self.tables.jobs.get(claim.job_id)
        is_locked = job is not None and (job.locked_by, job.token) in locks
        queue = self.tables.queues[claim.queue_id] if claim.queue_id else None
        holds_queue = queue is not None and (queue.locked_by, queue.token) in locks
        told = f"{what}: {claim.keys} of {worker.id}, and it is {job}, {queue}"
        if what in ("done", "refused", "lost"):
            assert not is_locked, told
            assert not holds_queue or what == "lost", told
        elif claim in worker.known:  # and was not settled since, in the same step
            assert job is not None, told
            assert is_locked, told
            assert holds_queue or queue is None or what != "claimed", told
            assert job.token == claim.keys[-1][1], told
            assert job.marked == job.token or what != "may start", told
