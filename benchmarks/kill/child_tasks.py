"""The task that runs in child processes, which find it by importing this module."""

from __future__ import annotations

from functools import cache

from benchmarks.kill.handlers import Handlers, Order
from benchmarks.kill.recorder import Recorder
from ferryman import App, WorkerContext
from ferryman.retries import FixedDelay

app = App()


@cache
def _handlers() -> Handlers:
    return Handlers(Recorder.of_environment())


@app.task(run_in="process", retry=FixedDelay(0.1))
def in_child(ctx: WorkerContext, order: Order) -> None:
    """Run a job like any other, in a child process."""
    _handlers().blocking(ctx, order)
