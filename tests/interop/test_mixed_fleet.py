"""A Node worker and ours on one schema, sharing the jobs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman import App, JobSpec, Worker
from ferryman.hooks import HookRegistry, WorkerStart
from tests.support import nodes
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

JOBS, QUEUES = 2_000, 20


@pytest.mark.parametrize("version", ["0.17", "0.18"])
async def test_each_job_runs_once_and_queues_stay_serial(version: str, database: str, tmp_path: Path) -> None:
    history = tmp_path / "history"
    app, added = App(database), 0

    @app.task(identifier="shared")
    async def shared(n: int, queue: str) -> None:
        _note(history, "start", n, queue)
        await asyncio.sleep(0)
        _note(history, "end", n, queue)

    async with app.client() as client:
        with nodes.working(version, database, command="share", history=str(history)) as node:
            has_started, hooks = asyncio.Event(), HookRegistry()
            hooks.on(WorkerStart, lambda _: has_started.set())
            worker = Worker(app, concurrency=4, hooks=hooks)
            running = asyncio.create_task(worker.run())
            await has_started.wait()
            with psycopg.connect(database, autocommit=True) as observer:
                # Whoever is paused by the machine may miss them all; then there are more.
                while added == 0 or not {"node", "ferryman"} <= _starts(history).keys():
                    await client.add_jobs([_job(shared, number) for number in range(added, added + JOBS)])
                    added += JOBS
                    await until(lambda: _is_empty(observer), "all jobs are done")
            worker.request_shutdown()
            await running
            assert node.stop() == "stopped"

    events = _events(history)
    starts = [event for event in events if event["what"] == "start"]
    assert sorted(event["n"] for event in starts) == list(range(added))
    assert _overlaps(events) == []


def _events(history: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in history.read_text().splitlines()]


def _starts(history: Path) -> Counter[str]:
    """How many jobs each side has begun."""
    return Counter(event["by"] for event in _events(history) if event["what"] == "start")


def _job(task: Any, number: int) -> tuple[Any, JobSpec]:
    queue = f"queue {number % QUEUES}"
    return task.job(n=number, queue=queue), JobSpec(queue_name=queue)


def _note(history: Path, what: str, number: int, queue: str) -> None:
    line = {"by": "ferryman", "what": what, "n": number, "queue": queue, "at": str(time.monotonic_ns())}
    descriptor = os.open(history, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{json.dumps(line)}\n".encode())
    os.close(descriptor)


def _overlaps(events: list[dict[str, Any]]) -> list[str]:
    """Queues in which a job began before the one before it had ended."""
    of_queue: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for event in events:
        of_queue[event["queue"]].append((int(event["at"]), event["what"]))
    return [
        queue
        for queue, notes in of_queue.items()
        if any(before[1] == after[1] for before, after in pairwise(sorted(notes)))
    ]


def _is_empty(observer: psycopg.Connection) -> bool:
    return observer.execute("select not exists (select from graphile_worker._private_jobs)").fetchone() == (True,)
