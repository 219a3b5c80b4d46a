"""`ferryman worker` in one process: it runs jobs, shuts down in order, and answers probes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.support.commands import JSON_LOGS, LONG_STORM, RunningCommand, probe
from tests.support.waiting import DEADLINE_SECONDS, until_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ferryman import SyncClient
    from ferryman.embedded import EmbeddedPostgres
    from tests.support.commands import Ran

TASKS = """
import asyncio
import time
from pathlib import Path

from ferryman import App, WorkerContext

app = App()


@app.task
async def greet(ctx: WorkerContext, name: str) -> None:
    ctx.logger.info("hello, %s", name)


@app.task
async def sleep_until_told(ctx: WorkerContext) -> None:
    ctx.logger.info("good night")
    while not Path("wake up").exists():
        await asyncio.sleep(0.01)
    ctx.logger.info("good morning")


@app.task
def never_end(ctx: WorkerContext) -> None:
    ctx.logger.info("here to stay")
    time.sleep(3600)


@app.task
async def block_the_loop() -> None:
    while not Path("wake up").exists():
        time.sleep(0.01)


@app.task
async def fail(ctx: WorkerContext) -> None:
    raise ValueError("no good")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


@pytest.fixture(params=["asyncio", "uvloop"])
def worker(folder: Path, database: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., RunningCommand]]:
    """Start `ferryman worker tasks` on the test's database, on either event loop."""
    started: list[RunningCommand] = []
    variables = {"DATABASE_URL": database, "FERRYMAN_LOOP": request.param, **JSON_LOGS}

    def start(*options: object, **environment: str) -> RunningCommand:
        started.append(RunningCommand(("worker", "tasks", *options), folder, {**variables, **environment}))
        return started[-1]

    yield start
    for each in started:
        each.clear_away()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2])
def test_a_signal_lets_running_jobs_finish(
    worker: Callable[..., RunningCommand], folder: Path, sync_client: SyncClient, number: signal.Signals
) -> None:
    started = worker("--grace", "60")
    started.wait_for_event("worker_started")
    sync_client.add_raw_job("sleep_until_told")
    started.wait_for("good night")

    started.send(number)
    assert [each["signal"] for each in started.wait_for_event("signal_received")] == [number.name]
    (folder / "wake up").touch()
    assert started.wait() == 0
    assert "good morning" in started.text
    assert sync_client.counts().total == 0
    assert started.events("cancellation_ignored") == []


def test_fifty_signals_in_a_row_are_like_one(
    worker: Callable[..., RunningCommand], folder: Path, sync_client: SyncClient
) -> None:
    sync_client.add_raw_job("sleep_until_told")
    (folder / "tasks.py").write_text(TASKS + LONG_STORM)
    started = worker("--grace", "60")
    started.wait_for("good night")

    for number in (signal.SIGTERM, signal.SIGHUP) * 25:
        started.send(number)
    started.wait_for_event("signal_received")
    (folder / "wake up").touch()

    assert started.wait() == 0
    assert len(started.events("signal_received")) == 1
    assert "good morning" in started.text
    assert sync_client.counts().total == 0


def test_a_second_signal_cancels_at_once(worker: Callable[..., RunningCommand], sync_client: SyncClient) -> None:
    job = sync_client.add_raw_job("sleep_until_told")
    started = worker("--grace-period", "3600")
    started.wait_for("good night")
    started.send(signal.SIGTERM)
    started.wait_for_event("signal_received")

    until_blocking(lambda: started.send(signal.SIGTERM) or started.has_ended, "the job was cancelled")

    assert started.wait() == 0
    returned = sync_client.get_job(job.id)
    assert (returned.locked_by, returned.attempts) == (None, 0)


def test_a_job_that_outlasts_the_grace_period_goes_back_and_does_not_keep_the_process(
    worker: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    job = sync_client.add_raw_job("never_end")
    started = worker("--grace", "0.1")
    started.wait_for("here to stay")

    assert started.stop() == 0
    returned = sync_client.get_job(job.id)
    assert (returned.locked_by, returned.attempts) == (None, 0)


def test_once_runs_what_is_due_and_ends_and_json_logs_are_a_document_on_each_line(
    worker: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    ann, bob = (sync_client.add_raw_job("greet", {"name": name}) for name in ("Ann", "Bob"))
    bad = sync_client.add_raw_job("fail")

    started = worker("--once", FERRYMAN_CONCURRENCY="1")

    assert started.wait() == 0
    documents = [json.loads(line) for line in started.lines]
    hellos = [each for each in documents if each["message"].startswith("hello")]
    assert [(each["message"], each["job_id"]) for each in hellos] == [("hello, Ann", ann.id), ("hello, Bob", bob.id)]
    for hello in hellos:
        assert tuple(hello[name] for name in ("task", "attempt", "level")) == ("greet", 1, "info")
        assert hello["worker_id"].startswith("ferryman-")
    complaints = [each for each in documents if each["level"] == "warning" and each.get("job_id") == bad.id]
    assert any("no good" in each["message"] for each in complaints)
    assert sync_client.counts().total == 1


def test_an_idle_pool_of_the_application_is_no_handler_and_what_is_registered_at_exit_runs_in_any_case(
    worker: Callable[..., RunningCommand], folder: Path
) -> None:
    at_exit = "\nimport atexit\nimport concurrent.futures\nimport threading\n\natexit.register(print, 'flushed')\n"
    pool = "pool = concurrent.futures.ThreadPoolExecutor()\npool.submit(int)\n"
    (folder / "tasks.py").write_text(f"{TASKS}{at_exit}{pool}")
    idle = worker("--once")
    assert idle.wait() == 0
    assert "flushed" in idle.lines
    assert idle.events("cancellation_ignored") == []

    busy = "threading.Thread(target=threading.Event().wait, name='metrics').start()\n"
    (folder / "tasks.py").write_text(f"{TASKS}{at_exit}{busy}")
    stuck = worker("--once")
    assert stuck.wait() == 0
    assert "flushed" in stuck.lines
    [told] = stuck.events("cancellation_ignored")
    assert "thread 'metrics'" in told["message"]


def test_probes_are_answered_until_the_end_and_without_a_database_the_worker_is_unready_but_not_dead(
    worker: Callable[..., RunningCommand],
    folder: Path,
    server: EmbeddedPostgres,
    database: str,
    sync_client: SyncClient,
) -> None:
    started = worker("--health-port", "0", "--grace", "60")
    livez, readyz = started.wait_for_probes()
    started.wait_for_event("worker_started")
    until_blocking(lambda: probe(readyz) == (200, "ready"), "it is ready")
    assert probe(livez) == (200, "alive")
    assert probe(livez.replace("livez", "metrics"))[0] == 404

    with psycopg.connect(server.dsn, autocommit=True) as admin:
        name = sql.Identifier(conninfo_to_dict(database)["dbname"])
        admin.execute(sql.SQL("alter database {} allow_connections false").format(name))
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
            [conninfo_to_dict(database)["dbname"]],
        )
        until_blocking(lambda: probe(readyz) == (503, "the database does not answer"), "it is not ready")
        assert probe(livez) == (200, "alive")
        admin.execute(sql.SQL("alter database {} allow_connections true").format(name))
    until_blocking(lambda: probe(readyz) == (200, "ready"), "it is ready again")

    sync_client.add_raw_job("sleep_until_told")
    started.wait_for("good night")
    started.send(signal.SIGTERM)
    started.wait_for_event("signal_received")
    until_blocking(lambda: probe(readyz) == (503, "stopping"), "it is not ready any more")
    assert probe(livez) == (200, "alive")
    (folder / "wake up").touch()
    assert started.wait() == 0


def test_an_event_loop_that_hangs_makes_the_worker_dead(
    worker: Callable[..., RunningCommand], folder: Path, sync_client: SyncClient
) -> None:
    started = worker("--health-port", "0", "--stuck-after", "2")
    livez, readyz = started.wait_for_probes()
    started.wait_for_event("worker_started")
    until_blocking(lambda: probe(livez) == (200, "alive"), "it is alive")

    sync_client.add_raw_job("block_the_loop")
    until_blocking(lambda: probe(livez)[0] == 503, "it is not alive")
    assert "an event loop has not ticked for" in probe(livez)[1]
    assert probe(readyz)[0] == 503
    (folder / "wake up").touch()

    until_blocking(lambda: probe(livez) == (200, "alive"), "it is alive again")
    assert started.stop() == 0


def test_a_port_that_is_taken_is_told_at_once(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        started = RunningCommand(("worker", "tasks", "--health-port", taken.getsockname()[1]), folder, {})

        assert started.wait() == 1
    assert "Error: cannot serve health probes at 127.0.0.1:" in started.text


def test_systemd_hears_of_the_start_and_of_the_end(worker: Callable[..., RunningCommand], tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(DEADLINE_SECONDS)
        started = worker(NOTIFY_SOCKET=address, WATCHDOG_USEC="30000000")

        assert until_blocking(lambda: (word := systemd.recv(100)) != b"WATCHDOG=1" and word, "a start") == b"READY=1"
        assert systemd.recv(100) == b"WATCHDOG=1"
        started.send(signal.SIGTERM)
        assert until_blocking(lambda: (word := systemd.recv(100)) != b"WATCHDOG=1" and word, "an end") == b"STOPPING=1"
    assert started.wait() == 0


def test_the_command_line_decides_which_database_and_schema_and_the_package_is_the_command_too(
    folder: Path, database: str, sync_client: SyncClient
) -> None:
    (folder / "tasks.py").write_text(TASKS.replace("App()", 'App("postgresql://nobody@127.0.0.1:1/x", schema="other")'))
    sync_client.add_raw_job("greet", {"name": "Ann"})
    command = [sys.executable, "-m", "ferryman", "worker", "tasks", "--once"]
    where = ["--database-url", database, "--schema", "graphile_worker"]

    ran = subprocess.run([*command, *where], cwd=folder, capture_output=True, text=True, check=True)

    assert "hello, Ann" in ran.stderr


def test_without_a_database_the_worker_says_so_and_ends(folder: Path) -> None:
    started = RunningCommand(("worker", "tasks"), folder, {})

    assert started.wait() == 1
    assert "Error: no database is configured." in started.text
    assert "Traceback" not in started.text


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_a_grace_period_that_is_none_is_refused(run: Callable[..., Ran], seconds: str) -> None:
    ran = run("worker", "tasks", "--grace", seconds)

    assert ran.code == 2
    assert "Invalid value for '--grace'" in ran.err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--once", "--reload"), "--once exits when no job is due, so it cannot be combined with --reload."),
        (("--queue-size", "-1"), "Invalid value for '--queue-size'"),
        (("--queue-size", "many"), "Invalid value for '--queue-size'"),
        (("--concurrency", "0"), "Invalid value for '--concurrency'"),
        (("--processes", "0"), "Invalid value for '--processes'"),
        (("--max-connections", "0"), "Invalid value for '--max-connections'"),
        (("--max-memory", "512"), "512 is not in the range from 16M to 16,777,216M"),
        (("--child-max-memory", "99999T"), "99999T is not in the range from 16M to 16,777,216M"),
        (("--max-memory", "lots"), "'lots' is not a size. Give 512M, 2G or a number of bytes"),
        (("--poll-interval", "0"), "Invalid value for '--poll-interval'"),
        (("--stuck-after", "0"), "Invalid value for '--stuck-after'"),
        (("--health-port", "65536"), "Invalid value for '--health-port'"),
    ],
)
def test_options_that_cannot_work_are_refused(
    run: Callable[..., Ran], options: tuple[str, ...], complaint: str
) -> None:
    ran = run("worker", "tasks", *options)

    assert ran.code == 2
    assert complaint in ran.err


def test_a_variable_that_cannot_work_is_named(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRYMAN_QUEUE_SIZE", "many")

    ran = run("worker", "tasks")

    assert ran.code == 2
    assert "'--queue-size' (env var: 'FERRYMAN_QUEUE_SIZE')" in ran.err
