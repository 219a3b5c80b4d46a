"""A worker ends in order when the system asks it to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ferryman import Worker
from ferryman.hooks import HookRegistry, ShutdownReason, WorkerShutdown, WorkerStart
from ferryman.worker.stopping import SECONDS_THAT_A_STORM_LASTS, SIGNALS
from tests.support.inside import inside
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, running, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from ferryman import App, Client


@contextmanager
def program(database: str, *, storm_seconds: float = SECONDS_THAT_A_STORM_LASTS) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.support.programs.ending", database, str(storm_seconds)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_running_jobs_finish_and_ends_with_success(
    database: str, client: Client, connection: psycopg.Connection, tmp_path: Path, number: signal.Signals
) -> None:
    await client.add_raw_job("work", {"folder": str(tmp_path)})
    with program(database) as process:
        await until((tmp_path / "begun").exists, "the job runs")
        process.send_signal(number)
        await until((tmp_path / "told").exists, "the signal is heard")
        (tmp_path / "gate").touch()
        _, errors = await asyncio.to_thread(process.communicate, timeout=60)

    assert (process.returncode, errors) == (0, b"")
    assert jobs(connection) == []


async def test_fifty_signals_are_like_one(
    database: str, client: Client, connection: psycopg.Connection, tmp_path: Path
) -> None:
    await client.add_raw_job("work", {"folder": str(tmp_path)})
    # However long it takes to send them.
    with program(database, storm_seconds=600) as process:
        await until((tmp_path / "begun").exists, "the job runs")
        for _ in range(50):
            process.send_signal(signal.SIGTERM)
        await until((tmp_path / "told").exists, "they are heard")
        (tmp_path / "gate").touch()
        _, errors = await asyncio.to_thread(process.communicate, timeout=60)

    assert (process.returncode, errors) == (0, b"")
    assert jobs(connection) == []


async def test_a_later_signal_interrupts_jobs_at_once(
    database: str, client: Client, connection: psycopg.Connection, tmp_path: Path
) -> None:
    await client.add_raw_job("work", {"folder": str(tmp_path)})
    with program(database) as process:
        await until((tmp_path / "begun").exists, "the job runs")
        process.send_signal(signal.SIGTERM)
        await until((tmp_path / "told").exists, "the signal is heard")
        heard = time.monotonic()
        await until(lambda: time.monotonic() - heard > SECONDS_THAT_A_STORM_LASTS, "another would not be the same")
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.to_thread(process.communicate, timeout=60)

    assert process.returncode == 0
    assert [line.partition(b";")[0] for line in errors.splitlines()] == [
        b"job 1 (work) was interrupted, because its worker shuts down"
    ]
    assert (only_job(connection).attempts, only_job(connection).locked_at) == (0, None)


async def test_the_end_by_a_signal_is_told_as_such_and_handlers_are_put_back(app: App, database: str) -> None:
    hooks, told = HookRegistry(), []
    hooks.on(WorkerShutdown, told.append)
    hooks.on(WorkerStart, lambda event: os.kill(os.getpid(), signal.SIGTERM))
    before = {number: signal.getsignal(number) for number in SIGNALS}

    await asyncio.wait_for(Worker(app, hooks=hooks).run(), 60)

    assert [event.reason for event in told] == [ShutdownReason.SIGNAL]
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


async def test_a_worker_can_be_ended_from_another_thread(app: App, database: str) -> None:
    worker = worker_of(app)
    async with running(worker) as life:
        await until(lambda: inside(worker).can_stop, "the worker has started")
        threading.Thread(target=worker.request_shutdown).start()
        await asyncio.wait_for(life, 60)


def test_a_worker_runs_outside_the_main_thread_too(app: App, database: str) -> None:
    worker = Worker(app)
    worker_thread = threading.Thread(target=lambda: asyncio.run(worker.run_once()))
    worker_thread.start()
    worker_thread.join(60)
    assert not worker_thread.is_alive()
