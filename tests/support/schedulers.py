"""Schedulers whose time is in the hands of the test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ferryman.cron.scheduler import CronScheduler
from ferryman.hooks import HookRegistry
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import psycopg

    from ferryman import Client

NOON = datetime(2030, 3, 4, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def scheduler_at(
    client: Client, now: datetime, crontabs: Any = "* * * * * tick", *, hooks: HookRegistry | None = None
) -> tuple[CronScheduler, ManualClock]:
    """A scheduler that takes its clock for the truth, and the clock."""
    clock = ManualClock(now)
    scheduler = CronScheduler(
        client,
        crontabs,
        hooks=HookRegistry() if hooks is None else hooks,
        clock=clock,
        use_local_time=True,
    )
    return scheduler, clock


def after_reading(scheduler: CronScheduler, act: Callable[[], Awaitable[object]]) -> None:
    """Let something happen between the moment when the scheduler has read the crontabs and when it adds jobs."""
    read = scheduler._read

    async def read_and_act() -> Any:
        found = await read()
        await act()
        return found

    scheduler._read = read_and_act  # type: ignore[method-assign]


def make_known(connection: psycopg.Connection, identifier: str, since: datetime, last: datetime | None = None) -> None:
    """Let a worker have been there before."""
    connection.execute(
        "insert into graphile_worker._private_known_crontabs values (%s, %s, %s)", (identifier, since, last)
    )


def known(connection: psycopg.Connection, identifier: str = "tick") -> tuple[datetime, datetime | None] | None:
    """Since when a crontab is known, and when it last fired."""
    row = connection.execute(
        "select known_since, last_execution from graphile_worker._private_known_crontabs where identifier = %s",
        [identifier],
    ).fetchone()
    return None if row is None else (row[0].astimezone(UTC), row[1] and row[1].astimezone(UTC))


def fired(connection: psycopg.Connection, task: str = "tick") -> list[datetime]:
    """The minutes of the jobs that are there, in the order in which they were added."""
    rows = connection.execute(
        "select run_at from graphile_worker.jobs where task_identifier = %s order by id", [task]
    ).fetchall()
    return [run_at.astimezone(UTC) for (run_at,) in rows]


def payloads(connection: psycopg.Connection) -> list[Any]:
    """The payloads of the jobs that are there, in the order in which they were added."""
    return [
        row[0] for row in connection.execute("select payload from graphile_worker._private_jobs order by id").fetchall()
    ]
