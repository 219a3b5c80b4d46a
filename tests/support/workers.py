"""Workers at work, and what they leave in the tables."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from psycopg.rows import namedtuple_row

from ferryman import Worker, WorkerRecoveryConfig, WorkerShutdownConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

    from ferryman import App

MINUTES = timedelta(minutes=10)
"""A poll interval that no test waits for: whoever is woken was woken by something else."""


def worker_of(app: App, **given: Any) -> Worker:
    """A worker that neither polls, nor listens to signals, nor registers, unless told to."""
    shutdown = {"listen_os_shutdown_signals": False, **given.pop("shutdown", {})}
    options = {
        "concurrency": 4,
        "poll_interval": MINUTES,
        "recovery": WorkerRecoveryConfig(),
        "shutdown": WorkerShutdownConfig(**shutdown),
        **given,
    }
    return Worker(app, **options)


async def run_all(app: App, **given: Any) -> None:
    """Run every job that is due."""
    await worker_of(app, **given).run_once()


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """The worker at work; it is asked to end when the block ends."""
    life = asyncio.create_task(worker.run())
    try:
        yield life
    finally:
        worker.request_shutdown()
        await life


def jobs(connection: psycopg.Connection) -> list[Any]:
    """All jobs, oldest first, with `due_in`: the seconds until run_at, as it was when they were written."""
    rows = connection.cursor(row_factory=namedtuple_row).execute(
        "select *, extract(epoch from run_at - pg_xact_commit_timestamp(xmin))::float8 as due_in"
        " from graphile_worker._private_jobs order by id"
    )
    return rows.fetchall()


def only_job(connection: psycopg.Connection) -> Any:
    """The one job that there is."""
    [job] = jobs(connection)
    return job


def queues(connection: psycopg.Connection) -> list[Any]:
    """All named queues, by name."""
    rows = connection.cursor(row_factory=namedtuple_row).execute(
        "select * from graphile_worker._private_job_queues order by queue_name"
    )
    return rows.fetchall()


def due_now(connection: psycopg.Connection) -> None:
    """Let all jobs be due, as if their time had come."""
    connection.execute("update graphile_worker._private_jobs set run_at = now()")
