"""Asks the database about the queue. Connections are closed at once, because the process that asks also forks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from ferryman.embedded.paths import ServerFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = "graphile_worker"
CONNECT_SECONDS = 60
MESSAGE = re.compile(r"^\S+ \S+ \S+ \[\d+\] (?P<database>\S*) (?!DETAIL|HINT|CONTEXT|STATEMENT|QUERY)", re.MULTILINE)
"""How a message begins in the log, with the prefix that our servers have. What belongs to it follows."""


class Looking:
    """Questions about the queue."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def open_jobs(self) -> int:
        """Return the number of jobs that are not over."""
        [row] = self._rows(
            f"select count(*) as count from {SCHEMA}._private_jobs"
            " where attempts < max_attempts or locked_at is not null"
        )
        return int(row["count"])

    def open_tasks(self) -> set[str]:
        """Return the tasks with jobs that are not over."""
        rows = self._rows(
            f"select distinct task.identifier from {SCHEMA}._private_jobs as job"
            f" join {SCHEMA}._private_tasks as task on task.id = job.task_id"
            " where job.attempts < job.max_attempts or job.locked_at is not null"
        )
        return {row["identifier"] for row in rows}

    def registered(self, pids: Iterable[int]) -> set[int]:
        """Return which of these processes are registered as workers."""
        rows = self._rows(
            f"select cast(metadata ->> 'pid' as int) as pid from {SCHEMA}._private_workers"
            " where cast(metadata ->> 'pid' as int) = any (%s)",
            [*pids],
        )
        return {row["pid"] for row in rows}

    def crashes(self) -> list[dict[str, Any]]:
        """Return every recovery from a dead worker, as sweeps recorded it, without deaths of child processes."""
        return self._rows(
            "select job_id as job, worker_id as worker, recovered_by, attempt, started, decision, reason,"
            " cast(extract(epoch from noticed_at) * 1000000 as bigint) as noticed"
            f" from {SCHEMA}._ferryman_crashes where reason <> 'child process died' order by id"
        )

    def jobs_left(self) -> list[dict[str, Any]]:
        """Jobs that are still in the table."""
        return self._rows(
            "select id as job, coalesce(payload ->> 'number', payload -> 0 ->> 'number')::int as number, attempts,"
            " max_attempts, key, locked_by as worker, last_error as error"
            f" from {SCHEMA}._private_jobs order by id"
        )

    def locked_queues(self) -> list[str]:
        """Named queues that are locked."""
        rows = self._rows(f"select queue_name from {SCHEMA}._private_job_queues where locked_by is not null")
        return [row["queue_name"] for row in rows]

    def workers_left(self) -> list[str]:
        """Workers that are still registered."""
        return [row["id"] for row in self._rows(f"select id from {SCHEMA}._private_workers")]

    def sessions_left(self) -> int:
        """Connections to this database, other than this one."""
        [row] = self._rows(
            "select count(*) as count from pg_stat_activity where datname = current_database()"
            " and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        return int(row["count"])

    def outcomes(self, transactions: Iterable[int]) -> dict[int, str | None]:
        """Return how transactions ended: 'committed', 'aborted', 'in progress', or None if it is no longer known."""
        rows = self._rows(
            "select number, pg_xact_status(cast(cast(number as text) as xid8)) as status"
            " from unnest(cast(%s as bigint[])) as number",
            [*transactions],
        )
        return {row["number"]: row["status"] for row in rows}

    def deadlocks(self) -> list[str]:
        """Return the messages in the log of an embedded server about each deadlock in this database."""
        [row] = self._rows("select current_setting('data_directory') as folder, current_database() as name")
        log = ServerFiles(Path(row["folder"]).parent).log
        return deadlocks_in(log.read_text(errors="replace"), row["name"])

    def server_version(self) -> str:
        """The version of PostgreSQL."""
        [row] = self._rows("select current_setting('server_version') as version")
        return str(row["version"])

    def _rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(
            self._dsn, autocommit=True, row_factory=dict_row, connect_timeout=CONNECT_SECONDS
        ) as connection:
            return connection.execute(query.encode(), values or None).fetchall()


def deadlocks_in(log: str, database: str) -> list[str]:
    """Each message about a deadlock, with the statements that took part, each in one line."""
    begun = [*MESSAGE.finditer(log)]
    ends = [later.start() for later in begun[1:]] + [len(log)]
    messages = [log[at.start() : end] for at, end in zip(begun, ends, strict=True) if at["database"] == database]
    return [" ".join(message.split()) for message in messages if "deadlock detected" in message]
