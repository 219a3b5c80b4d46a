"""Runs one worker in this process, from the first import to the last log line."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from ferryman import Worker
from ferryman.cli.complaints import Complaint, complain
from ferryman.cli.loops import loop_factory
from ferryman.cli.worker.ending import leave, leave_after_exit_functions, still_running
from ferryman.cli.worker.finding import find_app
from ferryman.cli.worker.reach import watch_database
from ferryman.cli.worker.signals import heeded_signals, heeding
from ferryman.cli.worker.vitals import PULSE_SECONDS, Vitals
from ferryman.hooks import HookRegistry, WorkerStart

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman import App
    from ferryman.cli.worker.plan import Plan
    from ferryman.cli.worker.vitals import State

logger = logging.getLogger("ferryman.cli")


class WorkerProcess:
    """One worker, and word of how it does.

    pulse: called on the event loop, twice a second and at each change of state
    on_stop: called on the event loop when a signal asks the process to stop
    """

    def __init__(
        self, plan: Plan, vitals: Vitals, pulse: Callable[[], None], on_stop: Callable[[], None] | None = None
    ) -> None:
        self._plan = plan
        self._vitals = vitals
        self._pulse = pulse
        self._on_stop = on_stop
        self._worker: Worker | None = None
        self._signals = 0

    def run(self) -> int:
        """Run jobs until told to stop, or until none is due; the exit code."""
        for number in heeded_signals():
            signal.signal(number, lambda *_: leave(0))  # nothing runs yet that could be lost
        app = _app_of(self._plan)
        with asyncio.Runner(loop_factory=loop_factory(self._plan.loop)) as runner:
            try:
                runner.run(self._work(app))
            except asyncio.CancelledError:
                if not self._signals:
                    raise
            except Exception as error:
                if not still_running(runner.get_loop()):
                    raise
                complain(Complaint.of(error), self._plan.manner)
                leave_after_exit_functions(1)
            if left := still_running(runner.get_loop()):
                # Jobs were given back. Waiting, as Python does at exit, would take as long as these like.
                logger.warning(
                    "still running after the worker has stopped: %s; the process exits without waiting",
                    ", ".join(left),
                    extra={"event": "cancellation_ignored"},
                )
                leave_after_exit_functions(0)
        return 0

    async def _work(self, app: App) -> None:
        threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
        asyncio.get_running_loop().set_default_executor(threads)
        self._duties = [asyncio.create_task(self._tick(), name="pulse")]
        try:
            with heeding(self._stop):
                await self._run_jobs(app)
        finally:
            for duty in self._duties:
                duty.cancel()
            await asyncio.wait(self._duties)
            threads.shutdown(wait=False, cancel_futures=True)

    async def _run_jobs(self, app: App) -> None:
        hooks = HookRegistry()
        hooks.on(WorkerStart, self._be_ready)
        if self._plan.counts:
            self._vitals.counts.watch(hooks)
        options = self._plan.options(app, hooks=hooks)
        self._vitals.grace_seconds = options.shutdown.grace_period.total_seconds()
        self._worker = Worker(app, options)
        for _ in range(self._signals):
            self._worker.request_shutdown(by_signal=True)
        await (self._worker.run_once() if self._plan.once else self._worker.run())
        self._vitals.recycled_because = self._worker.recycled_because
        self._beat()

    def _be_ready(self, event: WorkerStart) -> None:
        self._become("ready")
        if self._plan.probes:
            self._duties.append(asyncio.create_task(watch_database(event.client, self._note), name="database"))

    def _note(self, answers: bool) -> None:
        self._vitals.reaches_database = answers

    def _stop(self, number: signal.Signals) -> None:
        if not self._signals:
            logger.info(
                "%s received; finishing running jobs",
                number.name,
                extra={"event": "signal_received", "signal": number.name},
            )
            if self._on_stop is not None:
                self._on_stop()
        self._signals += 1
        self._become("stopping")
        if self._worker is not None:
            self._worker.request_shutdown(by_signal=True)

    def _become(self, state: State) -> None:
        if self._vitals.state != "stopping":
            self._vitals.state = state
        self._beat()

    def _beat(self) -> None:
        self._vitals.seen_at = time.monotonic()
        self._pulse()

    async def _tick(self) -> None:
        while True:
            self._beat()
            await asyncio.sleep(PULSE_SECONDS)


def _app_of(plan: Plan) -> App:
    # Child processes of tasks, and clients that handlers make, look there.
    variables = {"DATABASE_URL": plan.database_url, "FERRYMAN_SCHEMA": plan.schema}
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    app = find_app(plan.target)
    if plan.database_url is not None:
        app.settings = replace(app.settings, database_url=plan.database_url)
    if plan.schema is not None:
        app.settings = replace(app.settings, schema=plan.schema)
    return app
