"""Worker processes with recovery, from the outside, and the database they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import namedtuple_row

from ferryman import App, Client, JobSpec, RawJobSpec
from tests.support.processes import WorkerProgram
from tests.support.rhythms import QUICK
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.history import History


class Fleet:
    """Workers, their history, and their tables."""

    def __init__(self, dsn: str, history: History) -> None:
        self.dsn = dsn
        self.history = history
        self._members: list[WorkerProgram] = []
        self._connection = psycopg.connect(dsn, autocommit=True)

    def close(self) -> None:
        for member in self._members:
            member.end()
        self._connection.close()

    def move(self, dsn: str) -> None:
        """Look at another database from now on."""
        self._connection.close()
        self.dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True)

    def start(
        self, recovery: Mapping[str, Any] | None = QUICK, *, dsn: str | None = None, **options: Any
    ) -> WorkerProgram:
        """Start a worker process; its options are those of `WorkerProgram`."""
        usual = {"concurrency": 2, "poll_seconds": 0.2}
        self._members.append(WorkerProgram(dsn or self.dsn, self.history, recovery=recovery, **{**usual, **options}))
        return self._members[-1]

    async def started(self, *recoveries: Mapping[str, Any] | None, **options: Any) -> list[WorkerProgram]:
        """As many workers as there are configs, all of them at work."""
        members = [self.start(recovery, **options) for recovery in recoveries]
        for member in members:
            await member.ready()
        return members

    def gate(self, name: str = "gate") -> Path:
        """Jobs that are given its path wait until it exists."""
        return self.history.path.with_name(name)

    async def add(self, task: str = "work", *, queue: str | None = None, count: int = 1, **payload: Any) -> list[int]:
        """Add jobs; their ids."""
        async with Client(self.dsn) as client:
            specs = [RawJobSpec(task, payload, JobSpec(queue_name=queue)) for _ in range(count)]
            return [job.id for job in await client.add_raw_jobs(specs)]

    async def until_started(self, job: int, times: int = 1) -> str:
        """Wait until the job has begun so often; the worker that began it last."""
        await until(lambda: len(self.history.lines("started", job=job)) >= times, f"job {job} starts {times} times")
        return str(self.history.lines("started", job=job)[times - 1]["worker"])

    async def until_gone(self, *jobs: int) -> None:
        """Wait until these jobs are complete."""
        left = "select id from graphile_worker._private_jobs where id = any(%s)"
        await until(lambda: not self.rows(left, [*jobs]), f"jobs {jobs} are complete")

    async def until_settled(self, job: int) -> str:
        """Wait until a worker has heard that its result was taken; which one."""
        await until(lambda: bool(self.history.lines("settled", job=job)), f"job {job} is settled")
        [line] = self.history.lines("settled", job=job)
        return str(line["worker"])

    async def until_swept(self, worker_id: str) -> None:
        """Wait until the worker was found dead."""
        await until(lambda: worker_id in self.lost(), f"worker {worker_id} is found dead")

    async def until_refused(self, job: int, worker_id: str) -> None:
        """Wait until the worker has heard that it lost the job."""
        await until(lambda: job in self.history.jobs("refused", worker=worker_id), f"job {job} is refused")

    def count(self) -> int:
        """How many jobs are left."""
        [row] = self.rows("select count(*) as jobs from graphile_worker._private_jobs")
        return int(row.jobs)

    def jobs(self) -> list[Any]:
        """All jobs that are left, oldest first."""
        return self.rows("select * from graphile_worker._private_jobs order by id")

    def job(self, job_id: int) -> Any:
        [row] = self.rows("select * from graphile_worker._private_jobs where id = %s", job_id)
        return row

    def workers(self) -> list[str]:
        """The ids of registered workers."""
        return [row.id for row in self.rows("select id from graphile_worker._private_workers order by started_at")]

    def lost(self) -> list[str]:
        """The ids of workers that were found dead."""
        ids = self.rows("select worker_id from graphile_worker._ferryman_lost_workers order by noticed_at")
        return [row.worker_id for row in ids]

    def crashes(self, job_id: int) -> list[Any]:
        """What was written down about the job."""
        return self.rows("select * from graphile_worker._ferryman_crashes where job_id = %s order by id", job_id)

    def locked_queues(self) -> list[str]:
        """The named queues that somebody holds."""
        held = self.rows("select queue_name from graphile_worker._private_job_queues where locked_by is not null")
        return [row.queue_name for row in held]

    def beats(self, worker_id: str) -> Any:
        """When the worker has beaten last."""
        [row] = self.rows("select last_heartbeat_at from graphile_worker._private_workers where id = %s", worker_id)
        return row.last_heartbeat_at

    async def until_beaten(self, worker_id: str, times: int) -> None:
        """Wait for so many beats."""
        for _ in range(times):
            last = self.beats(worker_id)
            await until(lambda last=last: self.beats(worker_id) != last, f"{worker_id} beats")

    def rows(self, query: str, *values: Any) -> list[Any]:
        cursor = self._connection.cursor(row_factory=namedtuple_row)
        cursor.execute(query, values)
        return cursor.fetchall() if cursor.description else []


def idle_app(dsn: str) -> App:
    """An application without jobs: its workers only look after others."""
    app = App(dsn)

    @app.task
    async def nothing() -> None:
        """Nobody adds such jobs."""

    return app
