"""The tables of a schema: jobs, queues, workers and crashes are put into a state, and looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

Row = dict[str, Any]

OURS = {"prefetches": False, "suspects": True}
"""What a worker of ours says that starts what it claims."""

SPEC = (
    "cast(row(%s, %s::json, %s, %s::timestamptz, %s::smallint, %s, %s::smallint, %s::text[])"
    " as graphile_worker.job_spec)"
)
SPEC_FIELDS = ("identifier", "payload", "queue_name", "run_at", "max_attempts", "job_key", "priority", "flags")
MARK = """
    insert into graphile_worker._ferryman_started_jobs
    select id, locked_by, locked_at from graphile_worker._private_jobs where id = %s
"""


class Tables:
    """What any program could do by SQL, on one connection; rows come back as dictionaries."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    def query(self, text: str, *values: object) -> list[Row]:
        cursor = self.connection.cursor(row_factory=dict_row)
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []

    # The functions of the schema

    def add_job(self, identifier: str | None = "task", **named: object) -> Row:
        if "payload" in named:
            named["payload"] = json.dumps(named["payload"])
        arguments = "".join(f", {name} => %s{_cast(name)}" for name in named)
        (row,) = self.query(f"select * from graphile_worker.add_job(%s{arguments})", identifier, *named.values())
        return row

    def add_jobs(self, *specs: Row, preserve_run_at: bool | None = False) -> list[Row]:
        listed = ", ".join(SPEC for _ in specs)
        values = [value for spec in specs for value in _spec_values(spec)]
        return self.query(
            f"select * from graphile_worker.add_jobs(array[{listed}]::graphile_worker.job_spec[], %s)",
            *values,
            preserve_run_at,
        )

    def remove_job(self, key: str) -> Row:
        (row,) = self.query("select * from graphile_worker.remove_job(%s)", key)
        return row

    def complete_jobs(self, *ids: int) -> list[Row]:
        return self.query("select * from graphile_worker.complete_jobs(%s)", list(ids))

    def permanently_fail_jobs(self, *ids: int, reason: str | None = None) -> list[Row]:
        return self.query("select * from graphile_worker.permanently_fail_jobs(%s, %s)", list(ids), reason)

    def reschedule_jobs(self, *ids: int, **named: object) -> list[Row]:
        arguments = "".join(f", {name} => %s{_cast(name)}" for name in named)
        return self.query(f"select * from graphile_worker.reschedule_jobs(%s{arguments})", list(ids), *named.values())

    def force_unlock_workers(self, *workers: str) -> None:
        self.query("select graphile_worker.force_unlock_workers(%s)", list(workers))

    # Jobs and queues

    def jobs(self) -> list[Row]:
        return self.query("select * from graphile_worker._private_jobs order by id")

    def job(self, job_id: int) -> Row:
        (row,) = self.query("select * from graphile_worker._private_jobs where id = %s", job_id)
        return row

    def queue(self, name: str) -> Row:
        (row,) = self.query("select * from graphile_worker._private_job_queues where queue_name = %s", name)
        return row

    def claim(self, job_id: int, worker: str = "worker-1", age: str = "0 seconds") -> Row:
        """Lock a job and its queue, as every worker does, some time ago."""
        self.query(
            """
            with job as (
                update graphile_worker._private_jobs
                set attempts = attempts + 1, locked_by = %s, locked_at = now() - %s::interval
                where id = %s
                returning job_queue_id, locked_by, locked_at
            )
            update graphile_worker._private_job_queues as queue
            set locked_by = job.locked_by, locked_at = job.locked_at
            from job where queue.id = job.job_queue_id
            """,
            worker,
            age,
            job_id,
        )
        return self.job(job_id)

    def set(self, job_id: int, **columns: object) -> Row:
        assignments = ", ".join(f"{name} = %s" for name in columns)
        self.query(f"update graphile_worker._private_jobs set {assignments} where id = %s", *columns.values(), job_id)
        return self.job(job_id)

    def lock_queue(self, name: str, worker: str, age: str) -> None:
        self.query(
            "update graphile_worker._private_job_queues set locked_by = %s, locked_at = now() - %s::interval"
            " where queue_name = %s",
            worker,
            age,
            name,
        )

    # Workers that died with jobs in their hands

    def worker(self, worker_id: str = "dead", age: str = "1 hour", **metadata: object) -> str:
        """Register a worker whose last beat is some time ago. A sweep by hand need not wait for its next beats."""
        metadata.setdefault("beat_interval", 0)
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

    def suspect(self, job_id: int, suspicion: str = "suspect", age: str = "1 day") -> None:
        """Flag a job as recovery does after a crash; crashes count from some time ago."""
        words = ("crashed", "suspect", "alone")
        flags = {f"ferryman:{word}": True for word in words[: words.index(suspicion) + 1]}
        self.query(
            """
            update graphile_worker._private_jobs
            set flags = coalesce(flags, '{}') || %s::jsonb || jsonb_build_object(
                'ferryman:crashed', cast(extract(epoch from now() - %s::interval) * 1000000 as bigint)
            )
            where id = %s
            """,
            json.dumps(flags),
            age,
            job_id,
        )

    def crashed_before(
        self,
        job_id: int,
        *,
        started: bool | None = True,
        age: str = "1 hour",
        worker: str = "w",
        reason: str = "silent",
    ) -> None:
        """Write down an earlier crash of the job."""
        self.query(
            """
            insert into graphile_worker._ferryman_crashes
                (job_id, task_identifier, worker_id, recovered_by, noticed_at, attempt, started, decision, reason)
            values (%s, 'task', %s, 'somebody', now() - %s::interval, 1, %s, 'requeue', %s)
            """,
            job_id,
            worker,
            age,
            started,
            reason,
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


def _cast(name: str) -> str:
    return {"payload": "::json", "run_at": "::timestamptz", "flags": "::text[]"}.get(name, "")


def _spec_values(spec: Row) -> Sequence[object]:
    filled = {"identifier": "task", **spec}
    if "payload" in filled:
        filled["payload"] = json.dumps(filled["payload"])
    return [filled.get(field) for field in SPEC_FIELDS]
