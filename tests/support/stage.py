"""Workers that died with jobs in their hands, as the tables show them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ferryman.database.sessions import AsyncSession
from ferryman.hooks import HookRegistry
from ferryman.recovery.config import WorkerRecoveryConfig
from ferryman.recovery.sweeping import Sweep, sweep_once
from ferryman.recovery.watching import Dead
from tests.support.functions import Functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman import Client
    from ferryman.recovery.results import SweepStaleWorkersResult
    from ferryman.recovery.watching import Reason
    from tests.support.functions import Row

MARK = """
    insert into graphile_worker._ferryman_started_jobs
    select id, locked_by, locked_at from graphile_worker._private_jobs where id = %s
"""


class Stage(Functions):
    """Puts workers and jobs into a state, and looks at what became of them."""

    def worker(self, worker_id: str = "dead", age: str = "1 hour", **metadata: object) -> str:
        """Register a worker whose last beat is some time ago."""
        self.query("select graphile_worker.worker_heartbeat(%s, %s)", worker_id, json.dumps(metadata))
        self.query(
            "update graphile_worker._private_workers set last_heartbeat_at = now() - %s::interval where id = %s",
            age,
            worker_id,
        )
        return worker_id

    def held_job(self, worker_id: str = "dead", *, age: str = "1 hour", identifier: str = "task", **named: Any) -> int:
        """A job that this worker has claimed."""
        job_id = self.add_job(identifier, **named)["id"]
        self.claim(job_id, worker_id, age)
        # It was last changed before it was claimed, not when this test put it there.
        self.query(
            "update graphile_worker._private_jobs set updated_at = locked_at, run_at = locked_at where id = %s", job_id
        )
        return int(job_id)

    def mark(self, job_id: int) -> None:
        """Say that the job has begun to run."""
        self.query(MARK, job_id)

    def policy(self, on_crash: str, identifier: str = "task") -> None:
        """Store what a crash means for a task."""
        self.query(
            "insert into graphile_worker._ferryman_task_policies (task_identifier, on_crash) values (%s, %s)",
            identifier,
            on_crash,
        )

    def crashed_before(
        self, job_id: int, *, started: bool | None = True, age: str = "1 hour", worker: str = "w"
    ) -> None:
        """Write down an earlier crash of the job."""
        self.query(
            """
            insert into graphile_worker._ferryman_crashes
                (job_id, task_identifier, worker_id, recovered_by, noticed_at, attempt, started, decision, reason)
            values (%s, 'task', %s, 'somebody', now() - %s::interval, 1, %s, 'requeue', 'silent')
            """,
            job_id,
            worker,
            age,
            started,
        )

    def crashes(self, job_id: int | None = None) -> list[Row]:
        """What was written down, of one job or of all."""
        return self.query(
            "select * from graphile_worker._ferryman_crashes where %s::bigint is null or job_id = %s order by id",
            job_id,
            job_id,
        )

    def workers(self) -> Sequence[str]:
        """The ids of registered workers."""
        return [row["id"] for row in self.query("select id from graphile_worker._private_workers order by id")]

    def lost_workers(self) -> list[Row]:
        """What is remembered of dead workers."""
        return self.query("select * from graphile_worker._ferryman_lost_workers order by worker_id")


async def sweep_as_worker(
    client: Client, *, hooks: HookRegistry | None = None, **given: Any
) -> SweepStaleWorkersResult:
    """Sweep as a worker does, with what it has observed."""
    settings = WorkerRecoveryConfig(**given.pop("config", {})).settings
    sweep = Sweep(
        schema_name="graphile_worker",
        settings=settings,
        recovered_by="sweeper",
        hooks=hooks or HookRegistry(),
        **given,
    )
    return await AsyncSession(lambda: client.pool, client.schema).run(sweep_once(sweep))


def seen(stage: Stage, worker_id: str, reason: Reason = "session lost", silent_for: float = 10.0) -> Dead:
    """What a worker has observed of another one."""
    (row,) = stage.query("select last_heartbeat_at from graphile_worker._private_workers where id = %s", worker_id)
    return Dead(worker_id, row["last_heartbeat_at"], reason, silent_for)
