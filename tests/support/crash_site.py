"""A database, workers that use it, and the history of what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from ferryman import Client, JobSpec, RawJobSpec
from tests.support.history import check, claim_of
from tests.support.processes import WorkerProgram, state_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.history import History


OTHERS = "datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"


class CrashSite:
    """Where the crash tests happen. Everything the test itself does goes past what stands between worker and server."""

    def __init__(self, dsn: str, history: History) -> None:
        self.dsn = dsn
        self.history = history
        self.gate: Path = history.path.with_name("gate")
        self._workers: list[WorkerProgram] = []
        self._connection: psycopg.Connection | None = None

    def start(self, dsn: str | None = None, **options: Any) -> WorkerProgram:
        """Start a worker process."""
        self._workers.append(WorkerProgram(dsn or self.dsn, self.history, **options))
        return self._workers[-1]

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._disconnect()

    def open_gate(self) -> None:
        """Let jobs that wait at the gate end."""
        self.gate.touch()

    async def add(
        self,
        count: int,
        *,
        queues: Sequence[str | None] = (None,),
        task: str = "work",
        max_attempts: int | None = None,
        **payload: Any,
    ) -> list[int]:
        """Add jobs, spread over the queues."""
        async with Client(self.dsn) as client:
            specs = [
                JobSpec(queue_name=queues[number % len(queues)], max_attempts=max_attempts) for number in range(count)
            ]
            jobs = await client.add_raw_jobs([RawJobSpec(task, payload, spec) for spec in specs])
        for job in jobs:
            self.history.note("added", job=job.id)
        return [job.id for job in jobs]

    async def free(self, worker: WorkerProgram) -> None:
        """Take its locks away from a worker that is dead, or seems to be. Stands in for recovery."""
        worker_id = worker.first_id
        await self.quiet()
        async with Client(self.dsn) as client:
            jobs, claims = self.jobs_of(worker), self.claims_of(worker)
            self.history.note("freed", worker=worker_id, jobs=jobs, claims=claims)
            await client.force_unlock_workers([worker_id])

    def claims_of(self, worker: WorkerProgram) -> list[str]:
        """The claims that a worker holds in the database."""
        rows = self._rows(
            "select id, locked_by, locked_at from graphile_worker._private_jobs where locked_by = %s", worker.first_id
        )
        return [claim_of(*row) for row in rows]

    def jobs_of(self, worker: WorkerProgram) -> list[int]:
        """The jobs that a worker holds in the database."""
        held = "select id from graphile_worker._private_jobs where locked_by = %s order by id"
        return [job for (job,) in self._rows(held, worker.first_id)]

    def jobs(self) -> list[int]:
        """The jobs that are not done."""
        return [job for (job,) in self._rows("select id from graphile_worker._private_jobs order by id")]

    async def all_done(self) -> None:
        """Wait until no job is left and the histories agree; then nothing may be locked and nothing broken."""
        await until(lambda: not self.jobs(), "all jobs are done")
        await until(lambda: not self.locked_queues(), "all queues are free")

    def connections(self) -> int:
        """How many others the server knows of."""
        return len(self._rows(f"select from pg_stat_activity where {OTHERS}"))

    def locked_queues(self) -> list[str]:
        """The named queues that somebody holds."""
        held = "select queue_name from graphile_worker._private_job_queues where locked_by is not null"
        return [name for (name,) in self._rows(held)]

    def check(self) -> None:
        """Nothing was lost, and nobody did what was not his to do."""
        check(self.history)

    async def quiet(self) -> None:
        """Wait until no session is at work, for workers that can send nothing more: a statement goes on to its end."""
        await until(lambda: self._all_sleep() and self._all_are_idle() and self._all_sleep(), "statements end")

    def _all_are_idle(self) -> bool:
        return not self._rows(f"select from pg_stat_activity where {OTHERS} and state is distinct from 'idle'")

    def _all_sleep(self) -> bool:
        """No session has anything to read: the kernel wakes whoever has, before anybody can see its statement."""
        sessions = self._rows(f"select pid from pg_stat_activity where {OTHERS}")
        return {state_of(pid) for (pid,) in sessions} <= {"S", ""}

    def _rows(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._connected().execute(query, values).fetchall()
        except psycopg.OperationalError:  # the server may have been killed since
            self._disconnect()
            return self._connected().execute(query, values).fetchall()

    def _connected(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = psycopg.connect(self.dsn, autocommit=True)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
