"""A script that starts its work wherever it is imported."""

from __future__ import annotations

import asyncio

from ferryman import App
from ferryman.worker.running.children.orders import ChildOrder
from ferryman.worker.running.children.pool import ChildPool
from tests.worker.children.orders import job_of

app = App()


@app.task
def work() -> None: ...


async def run() -> None:
    async with ChildPool(1) as pool:
        print(await pool.run(ChildOrder.of(work, job_of("work", "{}"), "worker-1")))  # noqa: T201


asyncio.run(run())
