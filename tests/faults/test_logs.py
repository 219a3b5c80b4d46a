"""Logs that nobody reads, and logs of those who would drive a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ferryman import SyncClient

TASKS = """
from pathlib import Path

from ferryman import App, WorkerContext

app = App()


@app.task
async def talk(ctx: WorkerContext, number: int) -> None:
    ctx.logger.warning("to nobody")
    Path(f"done {number}").touch()


@app.task
async def lie(ctx: WorkerContext, text: str) -> None:
    ctx.logger.warning("%s", text)
    raise ValueError(text)
"""
WORKER = [sys.executable, "-m", "ferryman", "worker", "tasks"]

pytestmark = [pytest.mark.timeout(400), pytest.mark.program]


@pytest.fixture
def start(tmp_path: Path, database: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start `ferryman worker` where its tasks are."""
    (tmp_path / "tasks.py").write_text(TASKS)
    started: list[subprocess.Popen[bytes]] = []

    def call(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "DATABASE_URL": database}
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **options))
        return started[-1]

    yield call
    for each in started:
        if each.poll() is None:
            each.kill()
        each.wait()


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_worker_whose_log_is_closed_while_it_works_goes_on_and_ends_in_order(
    start: Callable[..., subprocess.Popen[bytes]], sync_client: SyncClient, tmp_path: Path, form: str
) -> None:
    worker = start([*WORKER, "--log-format", form], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    sync_client.add_raw_job("talk", {"number": 0})
    await until((tmp_path / "done 0").exists, "the worker works")
    for pipe in (worker.stdout, worker.stderr):
        assert pipe is not None
        pipe.close()

    for number in range(1, 6):
        sync_client.add_raw_job("talk", {"number": number})
        await until((tmp_path / f"done {number}").exists, "it works without its log")

    await until(lambda: sync_client.counts().total == 0, "all jobs are settled, none has failed")
    worker.send_signal(signal.SIGTERM)
    await until(lambda: worker.poll() is not None, "the worker ends")
    assert worker.returncode == 0


async def test_a_worker_that_is_started_without_any_output_works_and_ends_in_order(
    start: Callable[..., subprocess.Popen[bytes]], sync_client: SyncClient, tmp_path: Path
) -> None:
    worker = start(["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *WORKER])
    sync_client.add_raw_job("talk", {"number": 0})

    await until((tmp_path / "done 0").exists, "the worker works")

    await until(lambda: sync_client.counts().total == 0, "the job is settled")
    worker.send_signal(signal.SIGTERM)
    await until(lambda: worker.poll() is not None, "the worker ends")
    assert worker.returncode == 0


HOSTILE = "\x1b[2J\x9b31m\u202e\r2026-01-01 00:00:00 INFO    forged\nforged too\x00\u2028end"


@pytest.mark.parametrize("form", ["text", "json"])
async def test_what_handlers_log_and_raise_does_not_drive_whoever_reads_the_log(
    start: Callable[..., subprocess.Popen[bytes]], sync_client: SyncClient, tmp_path: Path, form: str
) -> None:
    sync_client.add_raw_job("lie", {"text": HOSTILE.replace("\x00", "")})
    with (tmp_path / "log").open("wb") as log:
        worker = start([*WORKER, "--once", "--log-format", form], stdout=log, stderr=log)
        await until(lambda: worker.poll() is not None, "the worker ends")

    told = (tmp_path / "log").read_bytes().decode()
    assert "forged" in told
    assert not {"\x1b", "\x9b", "\u202e", "\r", "\u2028"} & {*told}
    if form == "json":
        assert all(isinstance(json.loads(line), dict) for line in told.splitlines())
