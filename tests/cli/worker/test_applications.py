"""`ferryman worker` uses the options, the hooks and the lifespans of the application."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from ferryman import JobSpec
from tests.support.commands import JSON_LOGS, RunningCommand
from tests.support.waiting import until_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ferryman import SyncClient

OPTIONS = """
from datetime import timedelta

from ferryman import App, WorkerContext, WorkerOptions, WorkerShutdownConfig
from ferryman.hooks import HookRegistry, JobComplete, LocalQueueInit, WorkerShutdown

hooks = HookRegistry()
hooks.on(JobComplete, lambda event: print("complete", event.job.task_identifier, flush=True))
hooks.on(LocalQueueInit, lambda event: print("local queue", flush=True))
hooks.on(WorkerShutdown, lambda event: print("ended by", event.reason.name, flush=True))

app = App(
    worker=WorkerOptions(
        concurrency=1,
        forbidden_flags=["slow"],
        extensions={"greeting": "hello"},
        hooks=hooks,
        shutdown=WorkerShutdownConfig(grace_period=timedelta(seconds=61)),
    )
)


@app.task
async def greet(ctx: WorkerContext, name: str) -> None:
    print(ctx.extensions["greeting"], name, flush=True)
"""

LIFESPAN = """
import asyncio
from pathlib import Path

from ferryman import App, WorkerContext, WorkerOptions
from ferryman.hooks import HookRegistry, WorkerShutdown

hooks = HookRegistry()
hooks.on(WorkerShutdown, lambda event: print("ended by", event.reason.name, flush=True))

app = App(worker=WorkerOptions(hooks=hooks))


@app.lifespan
async def resource():
    print("opening", flush=True)
    if Path("slow to open").exists():
        await asyncio.sleep(3600)
    if Path("fails").exists():
        raise OSError("no route to the mail server")
    try:
        yield {"resource": asyncio.get_running_loop()}
    finally:
        print("closing", flush=True)
        if Path("slow to close").exists():
            await asyncio.sleep(3600)


@app.task
async def use(ctx: WorkerContext) -> None:
    print("same loop:", ctx.extensions["resource"] is asyncio.get_running_loop(), flush=True)
"""


THREE_TASKS = """
from ferryman import App

app = App()
app.task(lambda: print("ran send", flush=True), identifier="send", aliases=["mail"])
app.task(lambda: print("ran resize", flush=True), identifier="resize")
app.task(lambda: print("ran charge", flush=True), identifier="charge")
"""


@pytest.fixture
def worker(tmp_path: Path, database: str) -> Iterator[Callable[..., RunningCommand]]:
    """Start `ferryman worker` for tasks with this text, on the test's database."""
    started: list[RunningCommand] = []

    def start(text: str, *options: object) -> RunningCommand:
        (tmp_path / "tasks.py").write_text(text)
        started.append(RunningCommand(("worker", "tasks", *options), tmp_path, {"DATABASE_URL": database, **JSON_LOGS}))
        return started[-1]

    yield start
    for each in started:
        each.clear_away()


def test_hooks_extensions_and_forbidden_flags_of_the_application_are_heeded(
    worker: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    sync_client.add_raw_job("greet", {"name": "Ann"})
    left = sync_client.add_raw_job("greet", {"name": "Bob"}, JobSpec(flags=["slow"]))

    started = worker(OPTIONS, "--once")

    assert started.wait() == 0
    assert "hello Ann" in started.lines
    assert "complete greet" in started.lines
    assert "hello Bob" not in started.lines
    assert "ended by GRACEFUL" in started.lines
    assert sync_client.get_job(left.id).attempts == 0


def test_forbidden_flags_of_the_command_line_replace_those_of_the_application(
    worker: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    for name, flag in (("Ann", "slow"), ("Bob", "huge"), ("Cem", "odd")):
        sync_client.add_raw_job("greet", {"name": name}, JobSpec(flags=[flag]))

    started = worker(OPTIONS, "--once", "--forbidden-flag", "huge", "--forbidden-flag", "odd")

    assert started.wait() == 0
    assert [line for line in started.lines if line.startswith("hello")] == ["hello Ann"]


def test_the_command_line_chooses_the_tasks_that_a_worker_runs(
    worker: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    for identifier in ("send", "resize", "charge"):
        sync_client.add_raw_job(identifier)

    ran = []
    for options in (["--task", "mail", "--task", "resize", "--not-task", "resize"], ["--not-task", "charge"]):
        started = worker(THREE_TASKS, "--once", *options)
        assert started.wait() == 0
        ran.append([line for line in started.lines if line.startswith("ran")])

    assert ran == [["ran send"], ["ran resize"]]
    assert [job.task_identifier for job in sync_client.list_jobs().jobs] == ["charge"]


def test_a_queue_size_claims_ahead_and_jobs_run(worker: Callable[..., RunningCommand], sync_client: SyncClient) -> None:
    for name in ("Ann", "Bob", "Cem"):
        sync_client.add_raw_job("greet", {"name": name})

    started = worker(OPTIONS, "--queue-size", "2")

    started.wait_for("^local queue$")
    started.wait_for("^complete greet$", times=3)
    assert started.stop() == 0
    assert sync_client.counts().total == 0


def test_without_listening_jobs_are_found_by_polling(
    worker: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    started = worker(OPTIONS, "--no-listen", "--poll-interval", "0.05")
    started.wait_for_event("worker_started")

    sync_client.add_raw_job("greet", {"name": "Ann"})

    started.wait_for("^hello Ann$")
    assert started.stop() == 0


LOOP = """
import asyncio

from ferryman import App

app = App()


@app.task
async def look() -> None:
    print("on", type(asyncio.get_running_loop()).__module__, flush=True)
"""


@pytest.mark.parametrize(
    ("options", "module"), [((), "uvloop"), (("--loop", "uvloop"), "uvloop"), (("--loop", "asyncio"), "asyncio")]
)
def test_jobs_run_on_uvloop_where_it_is_installed_unless_told_otherwise(
    worker: Callable[..., RunningCommand], sync_client: SyncClient, options: tuple[str, ...], module: str
) -> None:
    sync_client.add_raw_job("look")

    started = worker(LOOP, *options, "--once")

    started.wait_for(f"^on {module}")
    assert started.wait() == 0


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_a_lifespan_is_opened_before_the_first_job_and_closed_after_the_last_and_hooks_hear_of_the_signal(
    worker: Callable[..., RunningCommand], sync_client: SyncClient, options: tuple[str, ...]
) -> None:
    sync_client.add_raw_job("use")
    processes = len(options) or 1

    started = worker(LIFESPAN, *options)
    started.wait_for("^same loop: True$")
    started.wait_for_event("worker_started", times=processes)

    assert started.stop() == 0
    lines = [line for line in started.lines if line in {"opening", "same loop: True", "closing"}]
    assert lines[0] == "opening"
    assert lines[-1] == "closing"
    assert lines.index("same loop: True") > 0
    assert (lines.count("opening"), lines.count("closing")) == (processes, processes)
    assert [line for line in started.lines if line.startswith("ended")] == ["ended by SIGNAL"] * processes


def test_a_lifespan_that_fails_ends_the_worker_with_the_reason(
    worker: Callable[..., RunningCommand], tmp_path: Path, sync_client: SyncClient
) -> None:
    (tmp_path / "fails").touch()
    job = sync_client.add_raw_job("use")

    started = worker(LIFESPAN, "--processes", "2")

    assert started.wait() == 1
    [told] = started.events("command_failed")
    assert told["message"].startswith("the lifespan 'resource' failed to start at ")
    assert "OSError: no route to the mail server" in started.text
    assert "Traceback" not in started.text
    assert sync_client.get_job(job.id).attempts == 0


def test_a_signal_ends_a_worker_that_is_still_opening_a_lifespan(
    worker: Callable[..., RunningCommand], tmp_path: Path
) -> None:
    (tmp_path / "slow to open").touch()
    started = worker(LIFESPAN)
    started.wait_for("^opening$")

    assert started.stop() == 0
    assert "Traceback" not in started.text


def test_a_second_signal_ends_a_lifespan_that_does_not_come_to_its_end(
    worker: Callable[..., RunningCommand], tmp_path: Path
) -> None:
    (tmp_path / "slow to close").touch()
    started = worker(LIFESPAN)
    started.wait_for_event("worker_started")
    for _ in range(10):
        started.send(signal.SIGTERM)
    started.wait_for("^closing$")
    assert not started.has_ended

    until_blocking(lambda: started.send(signal.SIGTERM) or started.has_ended, "it has ended")

    assert started.wait() == 0
    assert "Traceback" not in started.text
