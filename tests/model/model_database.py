"""The real side: PostgreSQL with the real statements, and a clock that moves only when it is told to.

The statements are not changed. This database has another `now()`, `clock_timestamp()` and `pg_postmaster_start_time()`,
and so the model can foretell every time to the microsecond.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman import SyncClient
from ferryman.database.blocking_sessions import SyncSession
from ferryman.database.statements import Style
from ferryman.database.steps import Wait
from ferryman.errors import DatabaseUnavailableError
from ferryman.queries.advisory_locks import SESSION_CLASS
from ferryman.queries.beat import hold_session_key
from ferryman.queries.claim import ClaimStatement
from tests.support.stand_ins import stand_in_for

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Self

    from ferryman.database.steps import Call, Row, Step, Steps

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
"""Moments of the model are whole microseconds since 1970."""
CLOCK = """
    create schema model;
    create table model.clock (at timestamptz, begun_at timestamptz, up_since timestamptz);
    insert into model.clock default values;
    create function model.moment(at timestamptz) returns bigint immutable language sql
        as 'select cast(extract(epoch from at) * 1000000 as bigint)';
"""
FUNCTIONS = {
    "now": """
        create function pg_catalog.now() returns timestamptz stable language sql as 'select begun_at from model.clock'
    """,
    "clock_timestamp": """
        create function pg_catalog.clock_timestamp() returns timestamptz volatile language sql
            as 'select at from model.clock'
    """,
    "pg_postmaster_start_time": """
        create function pg_catalog.pg_postmaster_start_time() returns timestamptz stable language sql
            as 'select up_since from model.clock'
    """,
}
DEFAULTS = """
    select format('alter table %s alter column %I set default now()', column_.attrelid::regclass, column_.attname)
    from pg_attrdef as given
    join pg_attribute as column_ on column_.attrelid = given.adrelid and column_.attnum = given.adnum
    where
        column_.attrelid::regclass::text like 'graphile_worker.%'
        and pg_get_expr(given.adbin, given.adrelid) = 'real_now()'
"""
TABLES = (
    "_private_jobs", "_private_job_queues", "_private_workers",
    "_ferryman_crashes", "_ferryman_lost_workers", "_ferryman_started_jobs",
)  # fmt: skip
SNAPSHOT = """
    select
        (
            select json_object_agg(job.id, json_build_object(
                'task', task.identifier, 'queue', queue.queue_name, 'payload', job.payload::text,
                'priority', job.priority, 'run_at', model.moment(job.run_at), 'attempts', job.attempts,
                'max_attempts', job.max_attempts, 'last_error', job.last_error,
                'updated_at', model.moment(job.updated_at), 'key', job.key, 'locked_at', model.moment(job.locked_at),
                'locked_by', job.locked_by, 'revision', job.revision, 'is_resilient', coalesce(job.flags ? $1, false),
                'crashed_at', (job.flags ->> 'ferryman:crashed')::bigint,
                'suspicion', case
                    when job.flags ? 'ferryman:alone' then 'alone'
                    when job.flags ? 'ferryman:suspect' then 'suspect'
                    when job.flags ? 'ferryman:crashed' then 'crashed'
                    else 'none'
                end
            ))
            from graphile_worker._private_jobs as job
            join graphile_worker._private_tasks as task on task.id = job.task_id
            left join graphile_worker._private_job_queues as queue on queue.id = job.job_queue_id
        ),
        (
            select json_object_agg(queue_name, json_build_array(locked_by, model.moment(locked_at)))
            from graphile_worker._private_job_queues where locked_by is not null or locked_at is not null
        ),
        (
            select json_object_agg(id, model.moment(last_heartbeat_at)) from graphile_worker._private_workers
        ),
        (
            select json_object_agg(job_id, json_build_array(locked_by, model.moment(locked_at)))
            from graphile_worker._ferryman_started_jobs
        ),
        (
            select json_agg(json_build_array(
                job_id, task_identifier, worker_id, recovered_by, model.moment(noticed_at), attempt, started, decision,
                reason
            ) order by id)
            from graphile_worker._ferryman_crashes
        ),
        (
            select json_object_agg(worker_id, json_build_array(
                reason, recovered_jobs, model.moment(last_heartbeat_at), model.moment(noticed_at)
            ))
            from graphile_worker._ferryman_lost_workers
        )
"""


def as_time(moment: int) -> datetime:
    """A moment of the model as PostgreSQL and the client take it."""
    return EPOCH + timedelta(microseconds=moment)


def as_moment(time: datetime) -> int:
    """A time as the model counts it."""
    return (time - EPOCH) // timedelta(microseconds=1)


class _Impatient(SyncSession):
    """A session that lets no time pass."""

    def __init__(self, database: ModelDatabase) -> None:
        super().__init__(database.client._own_pool, database.client.schema)
        self._database = database

    def _take(self, step: Step) -> Sequence[Row]:
        if isinstance(step, Wait):
            self._database.waited_seconds += step.seconds
            return ()
        return super()._take(step)


class ModelDatabase:
    """One database, emptied before each history."""

    def __init__(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(CLOCK)
            for name, definition in FUNCTIONS.items():
                connection.execute(stand_in_for(name, definition))
            for (change,) in connection.execute(DEFAULTS).fetchall():
                connection.execute(change)
        self.client = SyncClient(dsn)
        self._other = psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.RawCursor)
        self._runner = asyncio.Runner()
        self.waited_seconds = 0.0
        """By all operations, on their own clock."""

    def __enter__(self) -> Self:
        self.client.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()
        self._other.close()
        self.client.close()

    def reset(self) -> None:
        """Begin anew."""
        tables = ", ".join(f"graphile_worker.{name}" for name in TABLES)
        self._other.execute(f"truncate {tables} restart identity")
        self.lose_all_sessions()

    def set_clock(self, at: int, *, begun_at: int, up_since: int) -> None:
        """Say what time it is, when the transactions to come have begun, and since when the server is up."""
        self._other.execute(
            "update model.clock set at = $1, begun_at = $2, up_since = $3",
            (as_time(at), as_time(begun_at), as_time(up_since)),
        )

    def fetch(self, call: Call) -> Sequence[Row]:
        """Run a real statement."""

        def steps() -> Steps[Sequence[Row]]:
            rows = yield call
            return rows

        return self.run(steps())

    def run(self, steps: Steps[Any]) -> Any:
        """Run a real operation. Where it waits, only its own clock goes on."""
        return _Impatient(self).run(steps)

    def do(self, act: Coroutine[Any, Any, Any]) -> Any:
        """Let a part of a worker do something."""
        return self._runner.run(act)

    def hold_session(self, key: int) -> None:
        """Take the session lock of a worker. One connection stands for the sessions of all."""
        call = hold_session_key(key)
        text = call.statement.text(self.client.schema, Style.NUMBERED)
        assert self._other.execute(text, call.statement.ordered(call.parameters)).fetchone() == (True,)

    def lose_session(self, key: int) -> None:
        """End the session of a worker."""
        self._other.execute("select pg_advisory_unlock($1::int, $2::int)", (SESSION_CLASS, key))

    def lose_all_sessions(self) -> None:
        """End the sessions of all workers."""
        self._other.execute("select pg_advisory_unlock_all()")

    def delete_row(self, job_id: int) -> None:
        """What nobody should do."""
        self._other.execute("delete from graphile_worker._private_jobs where id = $1", (job_id,))

    def snapshot(self, resilient_flag: str) -> list[Any]:
        """Everything, in the shape of `Oracle.snapshot`."""
        row = self._other.execute(SNAPSHOT, (resilient_flag,)).fetchone()
        assert row is not None
        jobs, queues, workers, marks, crashes, lost = row
        return [
            {int(job_id): job for job_id, job in (jobs or {}).items()},
            queues or {},
            workers or {},
            {int(job_id): mark for job_id, mark in (marks or {}).items()},
            crashes or [],
            lost or {},
        ]


class Line:
    """A worker's connection, for the real parts of a worker. A reply may be lost, that of its last statement."""

    def __init__(self, model_database: ModelDatabase) -> None:
        self._database = model_database
        self.loses_reply = False

    async def fetch(self, call: Call) -> Sequence[Row]:
        rows = self._database.fetch(call)
        is_followed = call.statement is ClaimStatement.PLAIN.value.statement and len(rows) == 1
        if self.loses_reply and not is_followed:
            raise DatabaseUnavailableError("the reply was lost")
        return rows

    async def run(self, steps: Steps[Any]) -> Any:
        return self._database.run(steps)
