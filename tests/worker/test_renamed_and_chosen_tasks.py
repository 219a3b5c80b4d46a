"""Jobs that carry an earlier name of their task, and workers that run some of the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, Crontab, CrontabTimer, WorkerContext, WorkerOptions
from ferryman.errors import ConfigurationError, UnknownTaskError
from ferryman.hooks import HookRegistry, JobComplete
from tests.support.inside import inside
from tests.support.rhythms import recovery_of
from tests.support.waiting import until
from tests.support.workers import jobs, run_all, running, worker_of
from tests.worker import process_tasks

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from ferryman import Client


def _today(payload: dict[str, Any]) -> dict[str, Any]:
    return {"to": payload["address"]} if "address" in payload else payload


async def test_jobs_under_old_names_with_old_payloads_are_run_as_todays(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    ran: list[tuple[str, str, Any]] = []
    batches: list[list[Any]] = []
    completed: list[str] = []
    hooks = HookRegistry()
    hooks.on(JobComplete, lambda event: completed.append(event.job.task_identifier))

    @app.task(aliases=["mail"], upgrade=_today)
    async def send(ctx: WorkerContext, to: str) -> None:
        ran.append((ctx.job.task_identifier, to, ctx.payload))

    @app.task(aliases=["mail_all"], upgrade=_today, batch=True)
    def send_all(mails: list[dict[str, str]]) -> list[ValueError | None]:
        batches.append(mails)
        return [None, ValueError("odd")] if len(mails) > 1 else [None]

    await client.add_raw_job("mail", {"address": "a@b.c"})
    await client.add_raw_job("send", {"to": "d@e.f"})
    await client.add_batch_job("mail_all", [{"to": "g@h.i"}, {"address": "j@k.l"}])
    await run_all(app, hooks=hooks, concurrency=1)

    assert ran == [("mail", "a@b.c", {"address": "a@b.c"}), ("send", "d@e.f", {"to": "d@e.f"})]
    [left] = jobs(connection)
    assert left.payload == [{"address": "j@k.l"}], "what is left of a batch is as it was stored"
    connection.execute("update graphile_worker._private_jobs set run_at = now()")
    await run_all(app, hooks=hooks)
    assert batches == [[{"to": "g@h.i"}, {"to": "j@k.l"}], [{"to": "j@k.l"}]]
    assert (jobs(connection), completed) == ([], ["mail", "send", "mail_all"])


async def test_the_context_of_a_job_under_an_old_name_has_todays_task(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    seen: list[str] = []
    app.include(process_tasks.app)

    @app.task(aliases=["mail"])
    async def send(ctx: WorkerContext) -> None:
        seen.append(ctx.task.identifier)

    @app.task(aliases=["shrink"])
    def resize(ctx: WorkerContext) -> None:
        seen.append(ctx.task.identifier)

    for identifier, payload in (("mail", {}), ("shrink", {}), ("look_in_process", {"count": 1})):
        await client.add_raw_job(identifier, payload)
    await run_all(app, concurrency=1)

    assert seen == ["send", "resize"]
    assert [job.payload["task"] for job in jobs(connection)] == ["look_in_child"]


async def test_a_child_process_upgrades_payloads_too(app: App, client: Client, tmp_path: Path) -> None:
    app.include(process_tasks.app)

    await client.add_raw_job("write_down", {"place": str(tmp_path / "note"), "words": "from long ago"})
    await run_all(app, concurrency=1)

    assert (tmp_path / "note").read_text() == "from long ago"


async def test_what_a_worker_says_of_its_tasks_covers_their_old_names_and_no_task_that_it_does_not_run(
    app: App, client: Client, connection: psycopg.Connection
) -> None:
    for identifier in ("send", "resize"):
        app.task(lambda: None, identifier=identifier, aliases=[f"old_{identifier}"], on_crash="fail")
    app.add_crontabs(Crontab(task_identifier="resize", timer=CrontabTimer()))
    await run_all(app, recovery=recovery_of())
    connection.execute("delete from graphile_worker._private_tasks")

    worker = worker_of(app, tasks=["old_send"], recovery=recovery_of())
    async with running(worker):
        await until(lambda: inside(worker).is_alive and not inside(worker).may_be_dead, "the worker is registered")
        [active] = await client.list_active_workers()
        registered = connection.execute("select identifier from graphile_worker._private_tasks order by 1").fetchall()
        await until(
            lambda: connection.execute("select from graphile_worker._private_known_crontabs").fetchall(),
            "the schedule of a task that the worker does not run is known",
        )

    assert active.metadata["tasks"] == ["old_send", "send"]
    assert active.metadata["policies"] == {name: {"on_crash": "fail"} for name in ("send", "old_send")}
    assert registered == [("old_send",), ("send",)]
    policies = connection.execute(
        "select task_identifier, on_crash from graphile_worker._ferryman_task_policies order by 1"
    ).fetchall()
    assert policies == [(name, "fail") for name in ("old_resize", "old_send", "resize", "send")], "others' stay"


async def test_a_worker_runs_the_tasks_that_it_was_told_to_and_leaves_the_others(
    database: str, client: Client, connection: psycopg.Connection
) -> None:
    ran: list[str] = []
    for options in (WorkerOptions(tasks=["a", "b"], not_tasks=["b"]), WorkerOptions(not_tasks=["a"])):
        app = App(database, worker=options)
        for identifier in ("a", "b", "c"):
            app.task(lambda name=identifier: ran.append(name), identifier=identifier)
        for identifier in ("a", "b", "c") if not ran else ():
            await client.add_raw_job(identifier)
        await run_all(app, concurrency=1)
        ran.append("then")

    assert (ran, jobs(connection)) == (["a", "then", "b", "c", "then"], [])


async def test_a_worker_with_an_unknown_task_or_none_at_all_does_not_start(app: App) -> None:
    app.task(lambda: None, identifier="send")

    with pytest.raises(UnknownTaskError, match=r"no task 'sent' is defined here \(did you mean 'send'\?\)"):
        await run_all(app, tasks=["sent"])
    with pytest.raises(ConfigurationError, match="tasks and not_tasks leave no task for this worker"):
        await run_all(app, not_tasks=["send"])
    with pytest.raises(ConfigurationError, match="tasks must be a list of identifiers, not a single string"):
        worker_of(app, tasks="send")
