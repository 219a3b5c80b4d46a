"""A worker runs the tasks that it started with. Hooks may add schedules until it claims its first job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.cron import Cron
from ferryman.hooks import HookRegistry, WorkerStart
from tests.support.schedulers import known
from tests.support.waiting import until
from tests.support.workers import only_job, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client


async def test_a_task_that_is_defined_while_a_worker_runs_is_left_to_workers_that_start_later(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    done: list[str] = []

    @app.task
    async def early(name: str) -> None:
        done.append(name)

    async with running(worker_of(app)):
        await client.add_raw_job("early", {"name": "first"})
        await until(lambda: done == ["first"], "the worker runs")
        await until(
            lambda: not connection.execute("select from graphile_worker._private_jobs").rowcount, "it is settled"
        )

        @app.task
        async def late() -> None:
            done.append("late")

        # As `ferryman cleanup` does with tasks that have no jobs: the worker registers its tasks again.
        connection.execute("delete from graphile_worker._private_tasks")
        await client.add_raw_job("late")
        await client.add_raw_job("early", {"name": "second"})
        await until(lambda: "second" in done, "the worker has registered its tasks again")

    assert done == ["first", "second"]
    assert (only_job(connection).attempts, only_job(connection).locked_by) == (0, None)


async def test_a_schedule_that_a_hook_adds_before_the_first_claim_is_fired(
    app: App, connection: psycopg.Connection
) -> None:
    hooks = HookRegistry()
    hooks.on(WorkerStart, lambda _: app.add_crontabs(Cron.daily_at("tidy", 4, 0)))

    @app.task
    async def tidy() -> None:
        """Do nothing."""

    async with running(worker_of(app, hooks=hooks)):
        await until(lambda: known(connection, "tidy"), "the worker knows the schedule")
