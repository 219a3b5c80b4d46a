"""The application of `benchmarks.recovery_time`: jobs that last until their worker is killed, and then no longer."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from benchmarks.kill.recorder import FOLDER, Recorder
from ferryman import App, WorkerContext, WorkerOptions, WorkerRecoveryConfig

QUICK = "FERRYMAN_PROOF_QUICK"
"""The variable that asks for settings that are quicker than the defaults."""
THRESHOLD_SECONDS, INTERVAL_SECONDS = 15.0, 10.0


def _options() -> WorkerOptions | None:
    if QUICK not in os.environ:
        return None
    recovery = WorkerRecoveryConfig(
        heartbeat_interval=timedelta(seconds=1),
        sweep_interval=timedelta(seconds=INTERVAL_SECONDS),
        sweep_threshold=timedelta(seconds=THRESHOLD_SECONDS),
        claimed_threshold=timedelta(seconds=THRESHOLD_SECONDS),
        recovery_delay=timedelta(),
    )
    return WorkerOptions(recovery=recovery)


app = App(worker=_options())


@app.task
async def hold(ctx: WorkerContext, number: int) -> None:
    """Wait for ever in the first run, so that the worker is killed meanwhile; return at once in the second."""
    recorder = Recorder(Path(os.environ[FOLDER]), os.getpid())
    is_first = recorder.is_first(number, 1, "hold")
    recorder.begin(ctx, number)
    if is_first:
        await asyncio.Event().wait()
