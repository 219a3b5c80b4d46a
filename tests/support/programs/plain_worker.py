"""A worker with default settings: `python -m tests.support.programs.plain_worker <dsn> plain`.

With `unregistered` in place of `plain`, recovery is off.

Its only task prints which modules are loaded by then, and lets the worker end.
"""

from __future__ import annotations

import asyncio
import sys

from ferryman import App, Worker, WorkerRecoveryConfig

app = App(sys.argv[1])
worker = Worker(app) if sys.argv[2] == "plain" else Worker(app, recovery=WorkerRecoveryConfig())


@app.task
async def tell_modules() -> None:
    print(*sys.modules, flush=True)  # noqa: T201 - what the test reads
    worker.request_shutdown()


asyncio.run(worker.run())
