"""Ferryman's side: a worker of the shared task, which runs until its input ends."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import timedelta
from typing import Any

from ferryman import App, Worker, WorkerRecoveryConfig
from ferryman.hooks import HookRegistry, WorkerStart


async def main(settings: dict[str, Any]) -> None:
    """Run a worker, and print "ready" once it runs."""
    app = App(os.environ["DATABASE_URL"])

    @app.task
    async def shared(n: int, queue: str | None = None, ms: int | None = None, fails: bool | None = None) -> None:
        note(settings["history"], "start", n, queue)
        await asyncio.sleep(0 if settings.get("hurries") else (ms or 0) / 1000)
        if fails:
            raise ValueError("asked to fail")
        note(settings["history"], "end", n, queue)

    hooks = HookRegistry()
    hooks.on(WorkerStart, lambda _: print("ready", flush=True))
    threshold = timedelta(milliseconds=settings["sweep_threshold_ms"])
    recovery = WorkerRecoveryConfig(
        heartbeat_interval=threshold / 10,
        sweep_interval=threshold / 4,
        sweep_threshold=threshold,
        claimed_threshold=threshold,
        recovery_delay=timedelta(),
    )
    worker = Worker(app, concurrency=settings.get("concurrency", 4), hooks=hooks, recovery=recovery)
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(sys.stdin.read)
    worker.request_shutdown()
    await running


def note(history: str, what: str, n: int, queue: str | None) -> None:
    """Append a line to the history in one write, so that the lines of both sides are in the order of events."""
    line = json.dumps({"by": "ferryman", "what": what, "n": n, "queue": queue})
    descriptor = os.open(history, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
