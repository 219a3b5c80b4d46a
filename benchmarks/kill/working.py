"""Runs a real worker in a process that was forked from one that has imported everything."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import random
import signal
import struct
import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from benchmarks.kill import child_tasks
from benchmarks.kill.handlers import Handlers, Order
from benchmarks.kill.recorder import FOLDER, PROCESS, Recorder, claim_facts
from ferryman import App, Worker, WorkerContext, WorkerRecoveryConfig
from ferryman.hooks import (
    FailureReason,
    HookRegistry,
    JobComplete,
    JobFail,
    JobInterrupted,
    JobPermanentlyFail,
    SettleRefused,
    WorkerStart,
)
from ferryman.retries import FixedDelay
from ferryman.worker import LocalQueueConfig

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.kill.plan import WorkerPlan

PARENT_DEATH_SIGNAL = 1
SECOND = timedelta(seconds=1)
RECOVERY = WorkerRecoveryConfig(
    heartbeat_interval=SECOND,
    sweep_interval=SECOND,
    sweep_threshold=3 * SECOND,
    claimed_threshold=3 * SECOND,
    lost_session_grace=SECOND,
    recovery_delay=0 * SECOND,
)
"""The defaults, thirty times as quick and more; `max_crashes` is the default's 3."""
GRACE = SECOND / 2
RETRY = FixedDelay(0.1)
TIMEOUT = timedelta(seconds=0.3)


def live(plan: WorkerPlan, apps: Apps, folder: Path, ready: int) -> NoReturn:
    """Run the worker in a process that was just forked, until its end. It writes to `ready` once it claims jobs."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        random.seed()  # or all would draw the same pauses
        os.environ.update({PROCESS: str(plan.number), FOLDER: str(folder)})
        recorder = Recorder(folder, plan.number)
        try:
            _run(plan, apps, recorder, ready)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the history must know
            recorder.note("broken", error=traceback.format_exc())
    finally:
        os._exit(code)


def _run(plan: WorkerPlan, apps: Apps, recorder: Recorder, ready: int) -> None:
    logging.basicConfig(level=logging.ERROR, handlers=[LogToHistory(recorder)], force=True)
    recorder.note("born", kind="direct" if plan.prefetch is None else "local queue")
    worker = Worker(
        apps.of(plan, recorder),
        concurrency=plan.concurrency,
        poll_interval=SECOND / 2,
        local_queue=None if plan.prefetch is None else LocalQueueConfig(size=plan.prefetch),
        complete_job_batch_delay=SECOND * plan.gathers,
        recovery=RECOVERY,
        hooks=make_hooks(recorder, ready),
        blocked_loop_threshold=None,
        shutdown_grace_period=GRACE,
        shutdown_interrupted_job_retry_delay=0 * SECOND,
    )
    asyncio.run(worker.run())


class Apps:
    """The applications of the workers, made before the fork: reading annotations takes a while."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._handlers = Handlers(dsn=dsn)
        self._usual = self._make_usual()
        self._with_children = self._make_usual()
        self._with_children.include(child_tasks.app)

    def of(self, plan: WorkerPlan, recorder: Recorder) -> App:
        """Return the application for this worker, in its own process."""
        self._handlers.recorder = recorder
        if plan.tasks is not None:
            return self._make_special(plan.tasks)
        return self._with_children if plan.has_children else self._usual

    def _make_usual(self) -> App:
        app, handlers = App(self._dsn), self._handlers

        async def on_loop(ctx: WorkerContext, order: Order) -> None:
            await handlers.on_loop(ctx, order)

        def in_thread(ctx: WorkerContext, order: Order) -> None:
            handlers.blocking(ctx, order)

        async def batch(ctx: WorkerContext, items: list[Order]) -> list[str | None] | None:
            return await handlers.batch(ctx, items)

        async def timed(ctx: WorkerContext, order: Order) -> None:
            await handlers.timed(ctx, order)

        async def in_transaction(ctx: WorkerContext, order: Order) -> None:
            await handlers.in_transaction(ctx, order)

        app.task(retry=RETRY)(on_loop)
        app.task(retry=RETRY)(in_thread)
        app.task(retry=RETRY, batch=True)(batch)
        app.task(retry=RETRY, timeout=TIMEOUT)(timed)
        app.task(retry=RETRY)(in_transaction)
        app.task(identifier="retried", on_crash="retry", retry=RETRY)(on_loop)
        app.task(identifier="failed", on_crash="fail", retry=RETRY)(on_loop)
        return app

    def _make_special(self, tasks: Sequence[str]) -> App:
        app, handlers = App(self._dsn), self._handlers

        async def run(ctx: WorkerContext, order: Order) -> None:
            await handlers.on_loop(ctx, order)

        for identifier in tasks:
            app.task(identifier=identifier, retry=RETRY)(run)
        return app


def make_hooks(recorder: Recorder, ready: int) -> HookRegistry:
    """Make hooks that record what the worker does, and which jobs it recovers."""
    hooks = HookRegistry()

    @hooks.on(WorkerStart)
    def _started(event: WorkerStart) -> None:
        recorder.note("ready", worker=event.worker_id)
        os.write(ready, struct.pack("=q", os.getpid()))

    @hooks.on(JobComplete)
    def _completed(event: JobComplete) -> None:
        recorder.note("settled", **claim_facts(event.job))

    @hooks.on(JobFail)
    def _failed(event: JobFail) -> None:
        recorder.note("gave back", **claim_facts(event.job), error=_first_line(event.error))

    @hooks.on(JobPermanentlyFail)
    def _given_up(event: JobPermanentlyFail) -> None:
        recorder.note("gave up", **claim_facts(event.job), error=_first_line(event.error))

    @hooks.on(JobInterrupted)
    def _interrupted(event: JobInterrupted) -> None:
        is_ours = event.reason is FailureReason.SHUTDOWN_ABORTED
        recorder.note("returned" if is_ours else "freed", **claim_facts(event.job))

    @hooks.on(SettleRefused)
    def _refused(event: SettleRefused) -> None:
        recorder.note("refused", job=event.job_id, worker=event.worker_id, outcome=event.outcome.name)

    return hooks


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


class LogToHistory(logging.Handler):
    """Copies errors from the log to the history."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        """Record the error, unless a job failed for good: handlers record those."""
        if getattr(record, "event", None) != "job_permanently_failed":
            self._recorder.note("log", level=record.levelname, message=self.format(record))
