"""A task that runs in a child process, which finds it by importing this module."""

from __future__ import annotations

from ferryman import App, WorkerContext

app = App()


@app.task(run_in="process")
def in_child(ctx: WorkerContext) -> None:
    ctx.sync_client.add_raw_job("after_in_child")
