"""Whoever may create objects in a schema of the search_path must not get code to run as a worker or a producer."""

from __future__ import annotations

import ast
import asyncio
import gc
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import ferryman
from ferryman import (
    App,
    Client,
    JobKeyMode,
    JobSpec,
    LocalQueueConfig,
    RawJobSpec,
    Repair,
    RescheduleJobOptions,
    SyncClient,
    WorkerContext,
    WorkerRecoveryConfig,
)  # fmt: skip
from ferryman.database.addresses import parse_address
from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Statement, Style
from ferryman.queries.inventory import all_queries
from ferryman.recovery.beat_session import BeatSession
from tests.support.commands import run_here
from tests.support.impostors import surrounded
from tests.support.waiting import until
from tests.support.workers import run_all, running, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = SchemaName("graphile_worker")
PATH = "select pg_catalog.current_setting('search_path')"
COMMANDS = [
    ("migrate",), ("schema", "status"), ("doctor",), ("jobs", "add", "note", "{}"), ("jobs", "list"),
    ("jobs", "counts"), ("jobs", "retry", "--task", "note", "--state", "failed", "--yes"), ("workers", "list"),
    ("workers", "recover", "--yes"), ("cron", "list"), ("cleanup", "--yes"),
]  # fmt: skip
CALLS_OF_FUNCTIONS = """
    select graphile_worker.add_job('a', '[1]', 'q', flags => array['f'], job_key => 'k', run_at => 'infinity');
    select graphile_worker.add_job('a', '[2]', 'q', job_key => 'k', job_key_mode => 'preserve_run_at');
    select graphile_worker.add_job('a', job_key => 'k', job_key_mode => 'unsafe_dedupe');
    select graphile_worker.add_job('b', queue_name => 'r');
    select graphile_worker.add_jobs(array[
        row('c', '[]', 's', null, 3, null, 1, array['f'])::graphile_worker.job_spec,
        row('c', '[3]', 's', null, 3, 'k', 1, array['f'])::graphile_worker.job_spec,
        row('c', '[]', 's', null, 3, 'k', 1, null)::graphile_worker.job_spec
    ]);
    select graphile_worker.add_jobs(array[row('d', null, null, null, null, null, 1, null)::graphile_worker.job_spec]);
    update graphile_worker._private_jobs set locked_at = pg_catalog.now(), locked_by = 'dead';
    select graphile_worker.add_job('a', job_key => 'k');
    select graphile_worker.remove_job('k');
    select graphile_worker.worker_heartbeat('dead', '{}');
    select graphile_worker.list_stale_workers(interval '-1 day');
    select graphile_worker.list_orphan_locked_workers(interval '-1 day');
    select graphile_worker.recover_dead_worker_jobs(array['dead'], interval '0');
    select graphile_worker.delete_stale_workers(array['dead']);
    select graphile_worker.worker_deregister('dead');
    select graphile_worker.force_unlock_workers(array['dead']);
    select graphile_worker.reschedule_jobs(array[1, 2], priority => 2);
    select graphile_worker.permanently_fail_jobs(array[1], 'why');
    select graphile_worker.complete_jobs(array[1, 2]);
    select * from graphile_worker.jobs
"""


@pytest.fixture
def installed(empty_database: str) -> Iterator[str]:
    """A schema that was installed among impostors."""
    with surrounded(empty_database) as dsn:
        with SyncClient(dsn) as client:
            client.migrate()
        yield dsn


def borrowing_statements() -> Iterator[Statement]:
    """Every statement that may run on a connection of the caller's."""
    names = set()
    for file in Path(ferryman.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Call(func=called), attr="on")):
                    names.add(called.attr if isinstance(called, ast.Attribute) else ast.unparse(called))
    found = [each for each in all_queries() if each.__name__ in names]
    assert len(found) == len(names) > 20, names
    yield from (each.statement for each in found)


def qualified_statements() -> set[Statement]:
    """Those that are sent as they are behind a pooler, where nobody has fixed the search_path."""
    found = {each for each in gc.get_objects() if type(each) is Statement and each.is_qualified}
    assert found
    # Node and Rust may have written the body of a function.
    assert not [each for each in found if re.search(r":schema\.\w+\(", each.template)]
    return found


@pytest.mark.claims  # older servers look for more types by their names
async def test_statements_functions_and_sessions_name_postgresqls_own(installed: str) -> None:
    """A statement on a borrowed connection, and a function, runs with whatever search_path the caller has."""
    with psycopg.connect(installed, autocommit=True) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="impostor"):
            connection.execute("explain select from graphile_worker._private_jobs where id = 1")
        statements = [*borrowing_statements()]
        assert len(statements) > 20
        assert qualified_statements() <= {*statements}
        for number, statement in enumerate(statements):
            # Planned, and not run: what would never be reached is refused too.
            connection.execute(f"prepare statement_{number} as {statement.text(SCHEMA, Style.NUMBERED)}", prepare=False)
            values = ", ".join(["null"] * len(statement.parameters))
            connection.execute(f"explain execute statement_{number} {values and f'({values})'}", prepare=False)
        for call in CALLS_OF_FUNCTIONS.split(";\n"):
            connection.execute(call)

    fixed = [("pg_catalog, pg_temp",)]
    async with Client(installed) as client, client.pool.connection() as own:
        assert await own.fetch(PATH) == fixed
    with SyncClient(installed) as blocking:
        own_blocking = blocking._own_pool().getconn()
        assert own_blocking.fetch(PATH) == fixed
        blocking._own_pool().putconn(own_blocking)
    session = BeatSession.open(parse_address(installed), SCHEMA, "worker")
    assert session._connection.fetch(PATH) == fixed
    session.close()


async def test_clients_workers_and_commands_call_no_impostor(
    installed: str, empty_database: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, ran = App(installed), []

    @app.task
    async def note(ctx: WorkerContext, *, fails: bool = False) -> None:
        ctx.set_progress(0.5, "half")
        ran.append(ctx.job.id)
        if fails:
            raise ValueError("for good")

    @app.cron("* * * * *")
    @app.task
    async def tick() -> None: ...

    async with app.client() as client:
        await drive(client, note)
        await client.add_jobs([note.job(), (note.job(fails=True), JobSpec(queue_name="p", max_attempts=1))])
        await client.add_raw_job("unknown")
        await run_all(app, recovery=WorkerRecoveryConfig(enabled=True))
        await client.add_jobs([note.job(), (note.job(), JobSpec(queue_name="q"))])
        await run_all(app, local_queue=LocalQueueConfig(size=10))
        async with running(worker_of(app, recovery=WorkerRecoveryConfig(enabled=True))):
            await until(lambda: knows_a_crontab(empty_database), "the worker has made its crontab known")
        assert [job.state.value for job in (await client.list_jobs(task="note")).jobs] == ["failed"]
    monkeypatch.setenv("DATABASE_URL", installed)
    results = [await asyncio.to_thread(run_here, *command) for command in COMMANDS]
    assert [(result.code, result.err) for result in results if "denied" in result.out + result.err] == []
    assert "permission denied" not in caplog.text


def knows_a_crontab(dsn: str) -> bool:
    with psycopg.connect(dsn) as owner:
        return bool(owner.execute("select from graphile_worker._private_known_crontabs").fetchall())


async def drive(client: Client, task: Any) -> None:
    """Do everything that a client can."""
    using: Any
    with_key = JobSpec(job_key="key", queue_name="q", flags=["loud"])
    async with await psycopg.AsyncConnection.connect(client.address.conninfo) as borrowed:
        for using in (None, borrowed):
            added = await client.add_job(task.job(), JobSpec(queue_name="q", priority=1, flags=["loud"]), using=using)
            await client.add_job(task.job(), with_key, using=using)
            await client.add_job(task.job(), JobSpec(job_key="key", job_key_mode=JobKeyMode.UNSAFE_DEDUPE), using=using)
            await client.add_raw_jobs([RawJobSpec("note", {}), RawJobSpec("other", {}, with_key)], using=using)
            await client.remove_job("key", using=using)
            await client.reschedule_jobs([added.id], RescheduleJobOptions(priority=2), using=using)
            await client.permanently_fail_jobs([added.id], "why", using=using)
            await client.retry_jobs([added.id], using=using)
            await client.force_unlock_workers(["nobody"], using=using)
            assert await client.get_job(added.id, using=using)
            await client.get_progress(added.id, using=using)
            assert await client.list_jobs(using=using)
            assert (await client.counts(using=using)).total
            await client.complete_jobs([added.id], using=using)
            await client.schedules.add("* * * * * note ?id=daily&fill=1d", using=using)
            await client.schedules.pause("daily", using=using)
            await client.schedules.resume("daily", using=using)
            await client.schedules.change("daily", "0 8 * * * note ?id=daily", using=using)
            await client.schedules.list(using=using)
            await client.schedules.known(using=using)
            await client.schedules.run_now("daily", using=using)
            await client.schedules.remove("daily", using=using)
        await borrowed.commit()
    await client.sweep_stale_workers()
    await client.prune_recovery_records()
    await client.cleanup()
    await client.check_health()
    await client.repair_health(list(Repair))
    await client.list_active_workers()
