"""A program whose tasks are defined where it starts: what a `worker.py` looks like."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass

from ferryman import App
from ferryman.worker.running.children.orders import ChildOrder
from ferryman.worker.running.children.pool import ChildPool
from tests.worker.children.orders import job_of
from tests.worker.children.tasks import loop_in_c

app = App()


@dataclass
class Point:
    x: int
    y: int


@app.task
def mirror(point: Point) -> Point:
    return Point(point.y, point.x)


@app.task
@dataclass
class Count:
    items: list[str]

    def run(self) -> int:
        return len(self.items)


async def run_own_tasks() -> None:
    async with ChildPool(1) as pool:
        for identifier, payload_json in (("mirror", '{"x": 1, "y": 2}'), ("count", '{"items": ["a", "b"]}')):
            order = ChildOrder.of(app.tasks[identifier], job_of(identifier, payload_json), str(os.getpid()))
            print(await pool.run(order))  # noqa: T201 - how the test learns of it


async def run_forever(notes: list[str]) -> None:
    async with ChildPool(len(notes)) as pool, asyncio.TaskGroup() as group:
        for note in notes:
            job = job_of("loop_in_c", loop_in_c.job(note=note).payload_json)
            group.create_task(pool.run(ChildOrder.of(loop_in_c, job, "worker-1")))


if __name__ == "__main__":
    asyncio.run(run_forever(sys.argv[1:]) if sys.argv[1:] else run_own_tasks())
