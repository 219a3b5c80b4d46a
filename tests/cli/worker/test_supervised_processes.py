"""`ferryman worker` under a supervisor: several processes, replaced when dead, restarted when code changes."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from ferryman import RawJobSpec
from ferryman.cli.worker.plan import Plan
from ferryman.cli.worker.status_board import StatusBoard
from ferryman.cli.worker.supervised_process import SupervisedProcess
from ferryman.cli.worker.supervisor import LONGEST_PAUSE_SECONDS, SECONDS_TO_EXIT, Supervisor, pause_after
from ferryman.cli.worker.vitals import Vitals
from tests.support.commands import JSON_LOGS, LONG_STORM, RunningCommand, children_of, probe
from tests.support.processes import is_running
from tests.support.waiting import DEADLINE_SECONDS, until_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ferryman import SyncClient

TASKS = """
import asyncio
import os
import time
from pathlib import Path

from ferryman import App, WorkerContext

app = App()


@app.task
async def hold(ctx: WorkerContext, lines: int = 0) -> None:
    ctx.logger.info("held by process %d", os.getpid())
    while not Path("let go").exists():
        await asyncio.sleep(0.01)
    for _ in range(lines):
        ctx.logger.info("x" * 20_000)


@app.task
async def count() -> None: ...


@app.task(run_in="process")
def hold_in_a_child() -> None:
    print("held by a child of process", os.getppid(), flush=True)
    time.sleep(3600)


@app.task
async def die() -> None:
    os._exit(3)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


@pytest.fixture
def supervisor(folder: Path, database: str) -> Iterator[Callable[..., RunningCommand]]:
    """Start `ferryman worker tasks` on the test's database."""
    started: list[RunningCommand] = []

    def start(*options: object, target: str = "tasks", **environment: str) -> RunningCommand:
        started.append(
            RunningCommand(("worker", target, *options), folder, {"DATABASE_URL": database, **JSON_LOGS, **environment})
        )
        return started[-1]

    yield start
    for each in started:
        each.clear_away()


@pytest.fixture
def notified(folder: Path) -> Iterator[socket.socket]:
    """The socket on which systemd would receive the state of the service."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(folder / "notify"))
        systemd.settimeout(DEADLINE_SECONDS)
        yield systemd


def test_all_processes_work_and_end_in_order_with_whole_log_lines_and_systemd_hears_of_them_at_once(
    supervisor: Callable[..., RunningCommand], folder: Path, sync_client: SyncClient, notified: socket.socket
) -> None:
    started = supervisor(
        *("--processes", "3", "--concurrency", "1", "--grace", "60", "--health-port", "0"),
        NOTIFY_SOCKET=notified.getsockname(),
    )
    assert notified.recv(100) == b"READY=1"
    started.wait_for_event("worker_started", times=3)
    assert len(children_of(started.pid)) == 3
    _, readyz = started.wait_for_probes()
    until_blocking(lambda: probe(readyz) == (200, "ready"), "all three are ready")
    sync_client.add_raw_jobs([RawJobSpec("hold", {"lines": 50}) for _ in range(3)])
    lines = started.wait_for("held by process", times=3)
    assert {int(re.findall(r"process (\d+)", line)[0]) for line in lines} == children_of(started.pid)

    started.send(signal.SIGTERM)
    assert notified.recv(100) == b"STOPPING=1"
    assert {each["signal"] for each in started.wait_for_event("signal_received", times=3)} == {"SIGTERM"}
    until_blocking(lambda: probe(readyz) == (503, "stopping"), "all three are stopping")
    (folder / "let go").touch()
    assert started.wait() == 0
    assert sync_client.counts().total == 0
    assert [len(json.loads(line)["message"]) for line in started.lines].count(20_000) == 150


def test_a_process_that_is_killed_or_stopped_or_dies_is_replaced_and_the_service_goes_on(
    supervisor: Callable[..., RunningCommand], sync_client: SyncClient, notified: socket.socket
) -> None:
    started = supervisor("--processes", "2", "--concurrency", "1", NOTIFY_SOCKET=notified.getsockname())
    started.wait_for_event("worker_started", times=2)
    assert notified.recv(100) == b"READY=1"
    before = children_of(started.pid)
    victim = min(before)

    os.kill(victim, signal.SIGKILL)

    [told] = started.wait_for_event("process_replaced")
    assert f"worker process {victim} was killed by SIGKILL" in told["message"]
    started.wait_for_event("worker_started", times=3)
    after = children_of(started.pid)
    assert len(after) == 2
    assert before - after == {victim}

    os.kill(min(after), signal.SIGTERM)

    [*_, told] = started.wait_for_event("process_replaced", times=2)
    assert "exited with code 0" in told["message"]
    started.wait_for_event("worker_started", times=4)

    sync_client.add_raw_job("die")

    [*_, told] = started.wait_for_event("process_replaced", times=3)
    assert "exited with code 3" in told["message"]
    assert select.select([notified], [], [], 0)[0] == [], "systemd would kill a service that says that it stops"
    assert started.stop(signal.SIGINT) == 0
    assert notified.recv(100) == b"STOPPING=1"


def test_a_process_is_replaced_after_so_many_jobs_and_none_is_called_dead(
    supervisor: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    sync_client.add_raw_jobs([RawJobSpec("count", {}) for _ in range(50)])

    started = supervisor("--max-jobs", "20", "--concurrency", "1")

    until_blocking(lambda: sync_client.counts().total == 0, "all jobs are done")
    told = started.wait_for_event("process_recycled", times=2)
    assert all("it has run" in each["message"] for each in told)
    assert started.events("process_replaced") == []
    started.wait_for_event("worker_started", times=3)
    assert started.stop(signal.SIGTERM) == 0


def test_a_process_that_dies_again_and_again_is_waited_for_ever_longer() -> None:
    assert [pause_after(deaths) for deaths in (0, 1, 2, 3)] == [0.0, 0.2, 0.4, 0.8]
    assert pause_after(1000) == LONGEST_PAUSE_SECONDS


def test_once_ends_when_all_processes_have_nothing_left(
    supervisor: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    sync_client.add_raw_jobs([RawJobSpec("count", {}) for _ in range(100)])

    started = supervisor("--processes", "3", "--once")

    assert started.wait() == 0
    assert len(started.events("worker_started")) == 3
    assert sync_client.counts().total == 0
    assert started.events("process_replaced") == []


def test_once_does_not_replace_a_process_that_dies(
    supervisor: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    sync_client.add_raw_job("die")

    started = supervisor("--processes", "2", "--once")

    assert started.wait() == 1
    [told] = started.events("process_not_replaced")
    assert "exited with code 3" in told["message"]
    assert len(started.events("worker_started")) == 2


def test_once_ends_when_the_first_process_ends_before_it_is_ready(
    supervisor: Callable[..., RunningCommand], folder: Path
) -> None:
    for number, told in ((signal.SIGKILL, "was killed by SIGKILL"), (signal.SIGTERM, "exited with code 0")):
        (folder / "tasks.py").write_text(f"import os\n\nos.kill(os.getpid(), {number:d})\n")

        started = supervisor("--processes", "2", "--once")

        assert started.wait() == 1
        [ended] = started.events("process_not_replaced")
        assert f"{told} before it was ready" in ended["message"]


def test_systemd_s_watchdog_is_fed_while_every_process_waits_for_its_replacement(
    supervisor: Callable[..., RunningCommand], folder: Path, notified: socket.socket
) -> None:
    (folder / "tasks.py").write_text("import os\n\nos.kill(os.getpid(), 9)\n")

    started = supervisor("--processes", "2", NOTIFY_SOCKET=notified.getsockname(), WATCHDOG_USEC="30000000")

    started.wait_for_event("process_replaced")
    assert notified.recv(100) == b"WATCHDOG=1"
    assert started.stop() == 0


async def test_worker_processes_have_the_interpreter_s_flags(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "import sys\n\nprint(sys._xoptions, sys.warnoptions, file=open('flags', 'w'))\nsys.exit('enough')\n"
    (folder / "tasks.py").write_text(shown)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "_xoptions", {"faulthandler": True})
    monkeypatch.setattr(sys, "warnoptions", ["ignore::ImportWarning"])

    process = await SupervisedProcess.start(Plan(target="tasks"))
    await process.watch(Vitals(), lambda: None)

    assert (folder / "flags").read_text() == "{'faulthandler': True} ['ignore::ImportWarning']\n"


def test_a_process_that_hangs_makes_all_of_them_dead_and_one_that_died_makes_them_unready(
    supervisor: Callable[..., RunningCommand], folder: Path, sync_client: SyncClient
) -> None:
    slow = folder / "slow to start"
    (folder / "tasks.py").write_text(
        f"import pathlib\nimport time\n\nwhile pathlib.Path({str(slow)!r}).exists():\n    time.sleep(0.01)\n{TASKS}"
    )
    started = supervisor("--processes", "2", "--health-port", "0", "--stuck-after", "2")
    livez, readyz = started.wait_for_probes()
    started.wait_for_event("worker_started", times=2)
    until_blocking(lambda: probe(readyz) == (200, "ready"), "both are ready")
    victim = min(children_of(started.pid))

    os.kill(victim, signal.SIGSTOP)
    until_blocking(lambda: probe(livez)[0] == 503, "one is not alive")
    assert "an event loop has not ticked" in probe(readyz)[1]
    slow.touch()
    os.kill(victim, signal.SIGKILL)
    until_blocking(lambda: probe(readyz) == (503, "starting"), "one is being replaced")
    until_blocking(lambda: probe(livez) == (200, "alive"), "a process that starts is no dead one")
    slow.unlink()

    until_blocking(lambda: probe(readyz) == (200, "ready"), "both are ready again")
    assert started.stop() == 0


def test_neither_a_process_nor_a_child_of_one_outlives_a_supervisor_that_is_killed(
    supervisor: Callable[..., RunningCommand], sync_client: SyncClient
) -> None:
    sync_client.add_raw_job("hold_in_a_child")
    started = supervisor("--processes", "2", "--concurrency", "1")
    started.wait_for("held by a child of process")
    started.wait_for_event("worker_started", times=2)
    children = children_of(started.pid)
    grandchildren = {each for child in children for each in children_of(child)}
    assert len(children) == 2
    assert grandchildren

    assert started.stop(signal.SIGKILL) == -signal.SIGKILL

    until_blocking(lambda: not any(map(is_running, children | grandchildren)), "all of them are gone")


def test_fifty_signals_in_a_row_are_like_one(
    supervisor: Callable[..., RunningCommand], folder: Path, sync_client: SyncClient
) -> None:
    sync_client.add_raw_job("hold")
    (folder / "tasks.py").write_text(TASKS + LONG_STORM)
    started = supervisor("--processes", "2", "--grace", "60")
    started.wait_for("held by process")
    started.wait_for_event("worker_started", times=2)

    for number in (signal.SIGUSR2, signal.SIGINT) * 25:
        started.send(number)
    started.wait_for_event("signal_received", times=2)
    (folder / "let go").touch()

    assert started.wait() == 0
    assert len(started.events("signal_received")) == 2
    assert sync_client.counts().total == 0


BEFORE_ANY_IMPORT = """
import sys, time
from pathlib import Path

if "-c" in sys.orig_argv:
    Path("starting").touch()
    while not Path("signalled").exists():
        time.sleep(0.01)
"""


def test_ctrl_c_while_python_only_starts_a_process_prints_no_traceback(
    supervisor: Callable[..., RunningCommand], folder: Path
) -> None:
    (folder / "sitecustomize.py").write_text(BEFORE_ANY_IMPORT)
    started = supervisor("--reload", PYTHONPATH=str(folder))
    until_blocking((folder / "starting").exists, "a process starts")

    [child] = children_of(started.pid)
    os.kill(child, signal.SIGINT)  # a terminal sends it to both
    started.send(signal.SIGINT)
    (folder / "signalled").touch()

    assert started.wait() == 0
    assert "Traceback" not in started.text
    assert started.events("process_replaced") == []


def test_signals_while_processes_start_end_all_of_them(supervisor: Callable[..., RunningCommand]) -> None:
    started = supervisor("--processes", "4", "--log-level", "debug")
    started.wait_for_event("worker_started")  # of the first; the others are only starting now

    assert started.stop() == 0
    assert "Traceback" not in started.text
    assert started.events("process_replaced") == []


def test_a_long_grace_period_of_the_application_keeps_the_supervisor_from_killing() -> None:
    board = StatusBoard([Vitals(), Vitals(grace_seconds=600)], None, patience=30)

    assert Supervisor(Plan(target="tasks"), board, reload=False)._patience == 600 + SECONDS_TO_EXIT


def test_a_second_signal_is_passed_on(
    supervisor: Callable[..., RunningCommand], folder: Path, sync_client: SyncClient
) -> None:
    job = sync_client.add_raw_job("hold")
    started = supervisor("--processes", "2", "--grace", "60")
    started.wait_for("held by process")
    started.wait_for_event("worker_started", times=2)
    started.send(signal.SIGTERM)
    started.wait_for_event("signal_received", times=2)

    until_blocking(lambda: started.send(signal.SIGTERM) or started.has_ended, "the jobs were cancelled")

    assert started.wait() == 0, started.text
    returned = sync_client.get_job(job.id)
    assert (returned.locked_by, returned.attempts) == (None, 0)


def test_what_is_wrong_from_the_start_is_told_once(supervisor: Callable[..., RunningCommand]) -> None:
    started = supervisor("--processes", "3", target="taks")

    assert started.wait() == 1
    [told] = [json.loads(line) for line in started.lines]
    assert told["message"].startswith("there is no module 'taks'")
    assert (told["level"], told["event"]) == ("error", "command_failed")
    assert started.events("process_replaced") == []


def test_a_file_that_is_changed_or_broken_and_mended_restarts_the_worker_and_no_job_is_cancelled(
    supervisor: Callable[..., RunningCommand], folder: Path, sync_client: SyncClient
) -> None:
    started = supervisor("--reload", "--grace", "60")
    started.wait_for(r"started with 4 tasks")
    first = children_of(started.pid)

    (folder / "tasks.py").write_text(TASKS + "\n@app.task\ndef fifth() -> None: ...\n")
    started.wait_for_event("restarting")
    started.wait_for(r"started with 5 tasks")
    assert not first & children_of(started.pid)

    (folder / "tasks.py").write_text("def broken(")
    started.wait_for("importing 'tasks' failed at tasks.py:1: SyntaxError")
    started.wait_for_event("waiting_for_change")
    (folder / "tasks.py").write_text(TASKS + LONG_STORM.replace("600.0", "0.0"))
    started.wait_for(r"started with 4 tasks", times=2)

    sync_client.add_raw_job("hold")
    started.wait_for("held by process")
    for name in ("first.py", "second.py", "third.py"):
        (folder / name).touch()
        started.wait_for(f"{name} changed")
    (folder / "let go").touch()
    started.wait_for(r"started with 4 tasks", times=3)
    assert sync_client.counts().total == 0, "a job was cancelled, although its grace period was not over"
    assert started.stop() == 0
