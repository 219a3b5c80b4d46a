"""The statements that a Rust worker sends, recorded from graphile_worker 0.14.1, against our tables and functions.

`make interop-rust` runs the real one, and checks that it still sends just these.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row

from ferryman import App, WorkerContext
from ferryman.schema import migrate
from tests.support.carrying import carry_out
from tests.support.rust_migrations import migrate_as_rust
from tests.support.tables import Tables
from tests.support.workers import run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    NodeDatabase = Callable[[str], str]

RECORDED: list[str] = json.loads(Path(__file__).with_name("rust_statements.json").read_text(encoding="utf-8"))
RUST_ID, OUR_ID = "graphile_worker_0123456789abcdef01", "ferryman-000000000000000001"
ADD_JOB, COMPLETE, FAIL = "select * from graphile_worker.add_job(", "with j as (\n    delete", "update"
CLAIM, CLAIM_MANY = "with j as (\nselect", "with j_raw"


class RustWorker:
    """Sends what was recorded; each statement is named by its beginning."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.sent: set[str] = set()

    def send(self, beginning: str, *parameters: Any) -> list[dict[str, Any]]:
        [statement] = [each for each in RECORDED if each.startswith(beginning)]
        self.sent.add(statement)
        with psycopg.RawCursor(self.connection, row_factory=dict_row) as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def tasks(self, *identifiers: str) -> list[int]:
        self.send("insert into", list(identifiers))
        return sorted(row["id"] for row in self.send("select id, identifier", list(identifiers)))

    def add(self, n: int, *, queue: str | None = None, key: str | None = None) -> int:
        [job] = self.send(ADD_JOB, "shared", json.dumps({"n": n}), queue, None, None, key, None, None, "replace")
        return job["id"]


@pytest.fixture(params=["on our schema", "on a schema that Rust has migrated"])
def rust(request: pytest.FixtureRequest, database: str, node_database: NodeDatabase) -> Iterator[RustWorker]:
    dsn = database
    if request.param != "on our schema":
        dsn = node_database("0.16")
        migrate_as_rust(dsn)
        carry_out(dsn, migrate)
    worker = RustWorker(dsn)
    yield worker
    worker.connection.close()


async def test_a_rust_worker_and_ours_share_jobs_queues_and_recovery(rust: RustWorker) -> None:
    app, runs = App(rust.dsn), []

    @app.task
    async def shared(n: int, ctx: WorkerContext) -> None:
        runs.append((n, ctx.job.attempts))

    with psycopg.connect(rust.dsn, autocommit=True) as connection:
        tables = Tables(connection)
        _start(rust)
        task_ids = rust.tasks("shared")

        # What it claims is not claimed by us, and its queue is closed to us until it completes the job.
        first, _ = (rust.add(n, queue="q") for n in (1, 2))
        [claimed] = rust.send(CLAIM, RUST_ID, task_ids)
        assert (claimed["id"], claimed["attempts"], tables.queue("q")["locked_by"]) == (first, 1, RUST_ID)
        await run_all(app)
        assert runs == []
        rust.send(COMPLETE, first, RUST_ID)
        await run_all(app)
        assert (runs, tables.queue("q")["locked_by"]) == ([(2, 1)], None)
        assert tables.jobs() == []

        # What it fails we try again, with its attempt counted. A batch has one job of each queue.
        failing = rust.add(3)
        rust.send(CLAIM, RUST_ID, task_ids)
        rust.send(FAIL, failing, "no", RUST_ID, None)
        failed = tables.job(failing)
        assert (failed["attempts"], failed["last_error"], failed["locked_by"]) == (1, "no", None)
        tables.query("update graphile_worker._private_jobs set run_at = now()")
        await run_all(app)
        assert runs[1:] == [(3, 2)]
        many = [rust.add(n, queue=queue) for n, queue in ((4, "a"), (5, "a"), (6, None))]
        assert sorted(job["id"] for job in rust.send(CLAIM_MANY, RUST_ID, task_ids, 10)) == [many[0], many[2]]
        for job_id in (many[0], many[2]):
            rust.send(COMPLETE, job_id, RUST_ID)
        await run_all(app)
        assert runs[2:] == [(5, 1)]

        # It sweeps a worker of ours that is silent, and leaves one that beats alone.
        tables.query("select graphile_worker.worker_heartbeat('ferryman-alive')")
        tables.query("select graphile_worker.worker_heartbeat(%s)", OUR_ID)
        tables.query(
            "update graphile_worker._private_workers set last_heartbeat_at = now() - interval '1 hour' where id = %s",
            OUR_ID,
        )
        held = tables.held_job(OUR_ID, age="6 minutes", queue_name="q")
        assert _sweep(rust) == [OUR_ID]
        assert (tables.job(held)["locked_by"], tables.job(held)["attempts"]) == (None, 0)
        assert tables.queue("q")["locked_by"] is None
        left = tables.query("select id from graphile_worker._private_workers order by 1")
        assert [row["id"] for row in left] == ["ferryman-alive", RUST_ID]

        _manage(rust)
        rust.send("SELECT * FROM graphile_worker.worker_deregister", RUST_ID)
        rust.send("UNLISTEN")
    assert rust.sent == set(RECORDED)


async def test_a_rust_worker_that_was_swept_and_lives_deletes_a_job_that_we_run_and_we_notice(
    rust: RustWorker, caplog: pytest.LogCaptureFixture
) -> None:
    """It completes by the id alone. So the job is gone, and what our run says about it is refused."""
    app = App(rust.dsn)

    @app.task
    async def shared(n: int) -> None:
        rust.send(COMPLETE, job_id, RUST_ID)

    task_ids = rust.tasks("shared")
    job_id = rust.add(1)
    rust.send(CLAIM, RUST_ID, task_ids)
    rust.send("SELECT graphile_worker.recover_dead_worker_jobs", [RUST_ID], 0)
    await run_all(app)
    assert "settlement_refused" in [getattr(record, "event", None) for record in caplog.records]


def _start(rust: RustWorker) -> None:
    [status] = rust.send("select current_setting('server_version_num')")
    assert status["id"] >= 20
    rust.send("SELECT * FROM graphile_worker.worker_heartbeat", RUST_ID, '{"pid": 1}')
    rust.send("LISTEN")


def _sweep(rust: RustWorker) -> list[str]:
    rust.send("BEGIN")
    assert rust.send("SELECT pg_try_advisory_xact_lock", 0x47575253, 0x53574550) == [{"acquired": True}]
    function = "SELECT worker_id\nFROM graphile_worker.list_{}_workers"
    dead = [row["worker_id"] for row in rust.send(function.format("stale"), 300_000)]
    for worker_id in dead:
        rust.send("SELECT EXISTS", worker_id, ["infrastructure_resilient"])
    assert rust.send(function.format("orphan_locked"), 300_000) == []
    assert rust.send("SELECT graphile_worker.recover_dead_worker_jobs", dead, 0) == [{"recovered_count": 1}]
    rust.send("SELECT * FROM graphile_worker.delete_stale_workers", dead)
    rust.send("COMMIT")
    return dead


def _manage(rust: RustWorker) -> None:
    specs = json.dumps([{"identifier": "shared", "payload": {"n": 7}}, {"identifier": "shared", "payload": {"n": 8}}])
    ids = [row["id"] for row in rust.send("SELECT * FROM graphile_worker.add_jobs", specs, False)]
    keyed = rust.add(9, key="k")
    assert [row["id"] for row in rust.send("select * from graphile_worker.remove_job", "k")] == [keyed]
    changed = rust.send("select * from graphile_worker.reschedule_jobs", ids, None, 5, None, None)
    assert [row["priority"] for row in changed] == [5, 5]
    [failed] = rust.send("select * from graphile_worker.permanently_fail_jobs", ids[:1], "for a reason")
    assert (failed["attempts"], failed["last_error"]) == (failed["max_attempts"], "for a reason")
    rust.send("select * from graphile_worker.force_unlock_workers", ["nobody"])
    assert len(rust.send("select * from graphile_worker.complete_jobs", ids)) == 2
