"""The SQL functions of a schema, called as any other program would call them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

Row = dict[str, Any]

SPEC = (
    "cast(row(%s, %s::json, %s, %s::timestamptz, %s::smallint, %s, %s::smallint, %s::text[])"
    " as graphile_worker.job_spec)"
)
SPEC_FIELDS = ("identifier", "payload", "queue_name", "run_at", "max_attempts", "job_key", "priority", "flags")


class Functions:
    """Calls on one connection; rows come back as dictionaries."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    def query(self, text: str, *values: object) -> list[Row]:
        cursor = self.connection.cursor(row_factory=dict_row)
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []

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


def _cast(name: str) -> str:
    return {"payload": "::json", "run_at": "::timestamptz", "flags": "::text[]"}.get(name, "")


def _spec_values(spec: Row) -> Sequence[object]:
    filled = {"identifier": "task", **spec}
    if "payload" in filled:
        filled["payload"] = json.dumps(filled["payload"])
    return [filled.get(field) for field in SPEC_FIELDS]
