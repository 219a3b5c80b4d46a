"""A worker with default settings: `python -m tests.support.programs.plain_worker <dsn>`.

Its only task prints which modules are loaded by then, and lets the worker end.
"""

from __future__ import annotations

import asyncio
import sys

from ferryman import App, Worker

app = App(sys.argv[1])
worker = Worker(app)


@app.task
async def tell_modules() -> None:
    print(*sys.modules, flush=True)  # noqa: T201 - what the test reads
    worker.request_shutdown()


asyncio.run(worker.run())
