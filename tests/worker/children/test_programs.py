"""Whole programs: tasks of the main script, and children whose worker is killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import gone, noted_pid
from tests.support.workers import jobs

if TYPE_CHECKING:
    import psycopg

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FROM_ROOT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    "command", [[str(HERE / "script.py")], ["-m", "tests.worker.children.script"]], ids=["path", "module"]
)
def test_tasks_of_the_script_that_was_started_are_found(command: list[str]) -> None:
    assert run(*command).stdout.splitlines() == ["ChildSuccess(value={'x': 2, 'y': 1})", "ChildSuccess(value=2)"]


def test_tasks_of_a_package_that_was_started_are_found(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__main__.py").write_text((HERE / "script.py").read_text())
    ended = run("-m", "shop", cwd=tmp_path)
    assert ended.stdout.splitlines()[-1] == "ChildSuccess(value=2)", ended.stderr


def test_a_script_without_a_guard_is_told_about_it() -> None:
    assert "TaskError: importing '__main__' starts a worker" in run(str(HERE / "unguarded.py")).stdout.replace("\\", "")


def test_a_task_from_the_command_line_is_refused() -> None:
    program = (HERE / "script.py").read_text()
    assert "was typed into an interactive session" in run("-c", program).stderr


async def test_children_of_a_killed_worker_do_not_outlive_it(tmp_path: Path) -> None:
    notes = [tmp_path / "one", tmp_path / "two"]
    command = [sys.executable, str(HERE / "script.py"), *map(str, notes)]
    worker = await asyncio.create_subprocess_exec(*command, env=FROM_ROOT, stderr=subprocess.DEVNULL)
    pids = [await noted_pid(note) for note in notes]
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    for pid in pids:
        await gone(pid)


def test_where_the_kernel_does_not_help_a_hangup_ends_the_child() -> None:
    program = (
        "import socket, sys, threading, time; from ferryman.lifeline import end_at_hangup; "
        "channel = socket.socket(fileno=int(sys.argv[1])); "
        "threading.Thread(target=end_at_hangup, args=(channel,), daemon=True).start(); "
        "channel.send(b'.'); time.sleep(3600)"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = subprocess.Popen([sys.executable, "-c", program, str(theirs.fileno())], pass_fds=[theirs.fileno()])
        theirs.close()
        assert ours.recv(1) == b"."
        ours.shutdown(socket.SHUT_WR)  # told to leave: not a reason to end at once
        assert child.poll() is None
    assert child.wait(30) == 70


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=FROM_ROOT, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


SCRIPT = """
import asyncio
from ferryman import App, Worker

app = App({database!r})

@app.task(run_in="process", max_attempts=1)
def work() -> None: ...

with app.sync_client() as client:
    client.add_job(work.job())
    client.add_job(work.job())

{start}
"""


@pytest.mark.parametrize("command", ["path", "module"])
def test_a_script_without_a_guard_is_refused_before_anything_of_it_runs_twice(
    tmp_path: Path, database: str, connection: psycopg.Connection, command: str
) -> None:
    start = "asyncio.run(Worker(app, concurrency=2).run_once())"
    (tmp_path / "shop.py").write_text(SCRIPT.format(database=database, start=start))

    ended = run(*(["shop.py"] if command == "path" else ["-m", "shop"]), cwd=tmp_path)

    assert ended.returncode == 1
    assert re.search(r"TaskError: line 14 of \S*shop.py starts a worker", ended.stderr), ended.stderr
    assert 'Put it under `if __name__ == "__main__":`' in ended.stderr
    assert [job.attempts for job in jobs(connection)] == [0, 0]


def test_a_script_that_adds_jobs_wherever_it_is_imported_adds_none_in_children(
    tmp_path: Path, database: str, connection: psycopg.Connection
) -> None:
    start = "if __name__ == '__main__':\n    asyncio.run(Worker(app, concurrency=2).run_once())"
    (tmp_path / "shop.py").write_text(SCRIPT.format(database=database, start=start))

    ended = run("shop.py", cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    first, second = jobs(connection)
    assert "TaskError: importing '__main__' adds a job" in first.last_error
    assert second.last_error is not None
