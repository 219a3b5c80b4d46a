"""Runs one worker in this process, from the first import to the last log line."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread
import logging
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from ferryman import Worker
from ferryman.cli.command_errors import ErrorMessage, report_error
from ferryman.cli.event_loops import loop_factory
from ferryman.cli.worker.app_finder import find_app
from ferryman.cli.worker.database_probe import probe_database
from ferryman.cli.worker.stop_signals import handled_signals, handling
from ferryman.cli.worker.vitals import PULSE_SECONDS, Vitals
from ferryman.hooks import HookRegistry, WorkerStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ferryman import App
    from ferryman.cli.worker.plan import Plan
    from ferryman.cli.worker.vitals import State

logger = logging.getLogger("ferryman.cli")

IDLE_THREAD_SECONDS = 0.2
"""How long a thread that has just finished its work may take to become idle."""
EXIT_FUNCTION_SECONDS = 5.0


class WorkerProcess:
    """One worker, which keeps its vitals up to date.

    on_pulse: called on the event loop, twice a second and at each change of state
    on_stop: called on the event loop when a signal asks the process to stop
    """

    def __init__(
        self, plan: Plan, vitals: Vitals, on_pulse: Callable[[], None], on_stop: Callable[[], None] | None = None
    ) -> None:
        self._plan = plan
        self._vitals = vitals
        self._on_pulse = on_pulse
        self._on_stop = on_stop
        self._worker: Worker | None = None
        self._signals = 0

    def run(self) -> int:
        """Run jobs until a stop signal, or until none is due with --once; return the exit code."""
        for number in handled_signals():
            signal.signal(number, lambda *_: _exit_now(0))  # nothing runs yet that could be lost
        app = _app_of(self._plan)
        with asyncio.Runner(loop_factory=loop_factory(self._plan.loop)) as runner:
            try:
                runner.run(self._work(app))
            except asyncio.CancelledError:
                if not self._signals:
                    raise
            except Exception as error:
                if not _still_running(runner.get_loop()):
                    raise
                report_error(ErrorMessage.of(error), self._plan.error_format)
                _exit_after_exit_functions(1)
            if left := _still_running(runner.get_loop()):
                # Their jobs were given back. Waiting for them, as Python does at exit, could take for ever.
                logger.warning(
                    "still running after the worker has stopped: %s; the process exits without waiting",
                    ", ".join(left),
                    extra={"event": "cancellation_ignored"},
                )
                _exit_after_exit_functions(0)
        return 0

    async def _work(self, app: App) -> None:
        threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
        asyncio.get_running_loop().set_default_executor(threads)
        self._duties = [asyncio.create_task(self._tick(), name="pulse")]
        try:
            with handling(self._stop):
                await self._run_jobs(app)
        finally:
            for duty in self._duties:
                duty.cancel()
            await asyncio.wait(self._duties)
            threads.shutdown(wait=False, cancel_futures=True)

    async def _run_jobs(self, app: App) -> None:
        hooks = HookRegistry()
        hooks.on(WorkerStart, self._become_ready)
        if self._plan.counts:
            self._vitals.counts.watch(hooks)
        options = self._plan.options(app, hooks=hooks)
        self._vitals.grace_seconds = options.shutdown.grace_period.total_seconds()
        self._worker = Worker(app, options)
        for _ in range(self._signals):
            self._worker.request_shutdown(by_signal=True)
        await (self._worker.run_once() if self._plan.once else self._worker.run())
        self._vitals.recycled_because = self._worker.recycled_because
        self._pulse()

    def _become_ready(self, event: WorkerStart) -> None:
        self._become("ready")
        if self._plan.probes:
            probing = probe_database(event.client, self._note_database)
            self._duties.append(asyncio.create_task(probing, name="database"))

    def _note_database(self, does_answer: bool) -> None:
        self._vitals.reaches_database = does_answer

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
        self._pulse()

    def _pulse(self) -> None:
        self._vitals.seen_at = time.monotonic()
        self._on_pulse()

    async def _tick(self) -> None:
        while True:
            self._pulse()
            await asyncio.sleep(PULSE_SECONDS)


def _app_of(plan: Plan) -> App:
    # Child processes of tasks, and clients that handlers create, read these variables.
    variables = {"DATABASE_URL": plan.database_url, "FERRYMAN_SCHEMA": plan.schema}
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    app = find_app(plan.target)
    if plan.database_url is not None:
        app.settings = replace(app.settings, database_url=plan.database_url)
    if plan.schema is not None:
        app.settings = replace(app.settings, schema=plan.schema)
    return app


def _still_running(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return the names of threads and asyncio tasks that Python would wait for at exit, however long they take.

    An idle thread of a pool is not among them: Python ends it.
    """
    until = time.monotonic() + IDLE_THREAD_SECONDS
    busy = [thread for thread in _other_threads() if not _is_idle(thread)]
    for thread in busy:
        thread.join(max(0.0, until - time.monotonic()))
    threads = [f"thread {thread.name!r}" for thread in busy if thread.is_alive() and not _is_idle(thread)]
    return [*threads, *(f"asyncio task {task.get_name()!r}" for task in asyncio.all_tasks(loop))]


def _other_threads() -> Iterable[threading.Thread]:
    return [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]


def _is_idle(thread: threading.Thread) -> bool:
    """True if the thread belongs to a `ThreadPoolExecutor` and waits for work."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - documented, for purposes like this
    return frame is not None and frame.f_code is concurrent.futures.thread._worker.__code__  # noqa: SLF001


def _exit_now(code: int) -> NoReturn:
    """Exit at once, without waiting for threads."""
    with suppress(Exception):
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def _exit_after_exit_functions(code: int) -> NoReturn:
    """Exit without waiting for threads, but give `atexit` functions a moment: libraries write their buffers there."""
    # In a thread, because one of these functions may wait for what still runs.
    running = threading.Thread(target=atexit._run_exitfuncs, name="atexit", daemon=True)  # noqa: SLF001
    running.start()
    running.join(EXIT_FUNCTION_SECONDS)
    _exit_now(code)
