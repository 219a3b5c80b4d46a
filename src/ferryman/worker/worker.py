"""The life of a worker: it claims jobs, runs them, settles them, and ends in order."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferryman.errors import ConfigurationError
from ferryman.hooks import ShutdownReason, WorkerInit, WorkerShutdown, WorkerStart
from ferryman.worker.alarm import Alarm
from ferryman.worker.attempts import Attempts
from ferryman.worker.children import ChildPool, TaskPlace, refuse_while_importing
from ferryman.worker.claimer import Claimer
from ferryman.worker.connection import WorkerConnection
from ferryman.worker.handling import INTERRUPTED, Handlers
from ferryman.worker.listener import Listener
from ferryman.worker.local_queue import LocalQueue, LocalQueueConfig
from ferryman.worker.options import WorkerOptions
from ferryman.worker.outcomes import Completed, Failed, Interrupted, Unstarted
from ferryman.worker.reports import Reports
from ferryman.worker.settler import Settlement, Settler
from ferryman.worker.stopping import Stopping
from ferryman.worker.threads import Threads
from ferryman.worker.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from ferryman.app import App
    from ferryman.client import Client
    from ferryman.tasks import Task
    from ferryman.worker.claims import Claim, Claimed

logger = logging.getLogger("ferryman.worker")

MOST_UNSETTLED_PER_SLOT = 100
"""Beyond this many outcomes that wait to be written, no more jobs are claimed."""
SECONDS_HELD_BACK = 0.1
"""How often to look whether they were written."""
SECONDS_BETWEEN_LOOKS_AT_THE_UNSETTLED = 0.01
SECONDS_TO_FLUSH = 30.0
SECONDS_AFTER_HURRY = 5.0
"""How long outcomes may take to be written when the worker shall end at once."""
SECONDS_AFTER_CANCELLING = 5.0
"""How long handlers may take to notice that they were cancelled."""


class Worker:
    """Runs the jobs of an application.

        await Worker(app, concurrency=20).run()

    Options are those of `WorkerOptions`, given as keywords or as one object. A worker runs once.
    """

    def __init__(self, app: App, options: WorkerOptions | None = None, **given: Any) -> None:
        self._app = app
        self._options = replace(options, **given) if options is not None else WorkerOptions(**given)
        self.worker_id = f"ferryman-{secrets.token_hex(9)}"
        self._alarm = Alarm()
        self._stopping: Stopping | None = None
        self._was_stopped_early = False
        self._running: dict[Claim, asyncio.Task[None]] = {}
        self._local_queue: LocalQueue | None = None

    def request_shutdown(self) -> None:
        """Ask the worker to end. Running jobs get their grace period; asked again, they are cancelled at once."""
        if self._stopping is None:
            self._was_stopped_early = True
        else:
            self._stopping.request()

    async def run(self) -> None:
        """Run jobs until told to stop. Trouble with the database never ends it."""
        await self._live(once=False)

    async def run_once(self) -> None:
        """Run every job that is due now, settle all of them, and return."""
        await self._live(once=True)

    async def _live(self, *, once: bool) -> None:
        if self._stopping is not None:
            raise ConfigurationError("this worker has run already; make a new one")
        refuse_while_importing()
        self._check_tasks()
        self._stopping = Stopping(self._alarm.ring)
        if self._was_stopped_early:
            self._stopping.request()
        signals = self._stopping.on_signals() if self._options.shutdown.listen_os_shutdown_signals else nullcontext()
        with signals:
            async with self._app.client(
                use_local_time=self._options.use_local_time,
                max_connections=self._options.max_connections,
                hooks=self._options.hooks,
            ) as client:
                await client.migrate()
                await self._work(client, once=once)

    async def _work(self, client: Client, *, once: bool) -> None:
        hooks, options = self._options.hooks, self._options
        await hooks.emit(WorkerInit(client=client, schema=self._app.settings.schema, concurrency=options.concurrency))
        async with self._duties(client, listening=options.use_notification_delivery and not once) as self._settler:
            await self._claimer.register()
            await hooks.emit(WorkerStart(client=client, worker_id=self.worker_id, extensions=options.extensions))
            logger.info("worker %s runs %d tasks", self.worker_id, len(self._app.tasks))
            reason = ShutdownReason.ERROR
            try:
                # A database that does not answer must not keep the worker from ending.
                async with self._stop.limiting(options.shutdown.grace_period.total_seconds()):
                    if options.local_queue is not None and not once:
                        self._local_queue = self._make_local_queue(options.local_queue)
                        await self._local_queue.run()
                    else:
                        await self._claim_and_run(once=once)
                reason = ShutdownReason.SIGNAL if self._stop.by_signal else ShutdownReason.GRACEFUL
            finally:
                await self._drain()
                await self._flush()
                await hooks.emit(WorkerShutdown(client=client, worker_id=self.worker_id, reason=reason))

    @property
    def _stop(self) -> Stopping:
        assert self._stopping is not None  # noqa: S101 - set before anything runs
        return self._stopping

    @asynccontextmanager
    async def _duties(self, client: Client, *, listening: bool) -> AsyncIterator[Settler]:
        """Everything that goes on in the background, ended in order when the block ends."""
        options = self._options
        connection = WorkerConnection(client.pool, client.schema)
        self._claimer = Claimer(
            connection,
            self.worker_id,
            sorted(self._app.tasks),
            forbidden_flags=options.forbidden_flags,
            use_local_time=options.use_local_time,
        )
        settler = Settler(
            connection,
            self.worker_id,
            report=self._report,
            complete_delay=_seconds(options.complete_job_batch_delay),
            fail_delay=_seconds(options.fail_job_batch_delay),
        )
        async with AsyncExitStack() as stack:
            children = await stack.enter_async_context(ChildPool(options.concurrency))
            threads = Threads()
            stack.callback(threads.close)
            delay = options.shutdown.interrupted_job_retry_delay.total_seconds()
            handlers = Handlers(threads, children, interrupted_delay=delay)
            self._attempts = Attempts(
                handlers,
                hooks=options.hooks,
                client=client,
                worker_id=self.worker_id,
                extensions=options.extensions,
                shutting_down=self._stop.begun,
            )
            await stack.enter_async_context(_in_background(settler.run(), "settle"))
            if listening:
                listener = Listener(client.address, client.schema, self._heard)
                await stack.enter_async_context(_in_background(listener.run(), "listen"))
            yield settler

    def _make_local_queue(self, config: LocalQueueConfig) -> LocalQueue:
        options = self._options
        return LocalQueue(
            config,
            self._claimer,
            worker_id=self.worker_id,
            hooks=options.hooks,
            concurrency=options.concurrency,
            poll_seconds=options.poll_interval.total_seconds(),
            alarm=self._alarm,
            stop=self._stop.begun,
            free_slots=lambda: options.concurrency - len(self._running),
            start=self._start,
            settle=self._settler.settle,
            is_held_back=self._has_too_much_unsettled,
        )

    def _has_too_much_unsettled(self) -> bool:
        return self._settler.unsettled > self._options.concurrency * MOST_UNSETTLED_PER_SLOT

    async def _claim_and_run(self, *, once: bool) -> None:
        trouble = Trouble("claiming jobs")
        while not self._stop.begun.is_set():
            free = self._options.concurrency - len(self._running)
            if free <= 0:
                await self._alarm.wait(self._options.poll_interval.total_seconds())
                continue
            if self._has_too_much_unsettled():
                await self._alarm.wait(SECONDS_HELD_BACK)
                continue
            was_idle = not self._running and self._settler.unsettled == 0
            self._alarm.hush()
            try:
                claimed = await self._claimer.claim(free)
            except Exception as error:  # noqa: BLE001 - a function for forbidden flags may raise anything
                await self._alarm.wait(trouble.pause_after(error))
                continue
            trouble.is_over()
            for claim in claimed.claims:
                self._start(claim)
            if claimed.claims or self._claimer.is_looking_further:
                continue
            if once and was_idle:
                return
            if once and not self._running:
                await self._first_of(asyncio.ensure_future(self._settler.flush()), SECONDS_TO_FLUSH, or_hurry=True)
                continue
            await self._alarm.wait(self._pause_after(claimed))

    def _pause_after(self, claimed: Claimed) -> float:
        poll = self._options.poll_interval.total_seconds()
        return poll if claimed.next_due_in is None else min(poll, max(0.0, claimed.next_due_in))

    def _start(self, claim: Claim) -> None:
        if self._stop.begun.is_set():
            self._settler.settle(claim, Unstarted())
            return
        task = self._app.registry[self._claimer.tasks[claim.task_id]]
        self._running[claim] = asyncio.create_task(self._attempt(task, claim), name=f"job {claim.job_id}")

    async def _attempt(self, task: Task[..., Any], claim: Claim) -> None:
        try:
            outcome = await self._attempts.make(task, claim)
        except asyncio.CancelledError:
            outcome = self._interrupted()
        except BaseException:  # a handler that awaits a future which ends with GeneratorExit closes all of us
            logger.exception("job %d could not be run", claim.job_id)
            outcome = Failed("the worker could not run this job; see its log")
        if self._running.pop(claim, None) is not None:
            self._settler.settle(claim, outcome)
        if self._local_queue is None:
            self._alarm.ring()
        else:
            self._local_queue.serve()

    def _interrupted(self) -> Interrupted:
        return Interrupted(INTERRUPTED, self._options.shutdown.interrupted_job_retry_delay.total_seconds())

    async def _report(self, settlement: Settlement, is_written: bool) -> None:
        if settlement.claim.queue_id is not None or not isinstance(settlement.outcome, Completed):
            # The next job of that queue may run now, or this one again later, and nobody announces it.
            self._wake()
        if self._local_queue is not None:
            await self._local_queue.has_settled(settlement.claim, is_written=is_written)
        reports = Reports(self._options.hooks, self.worker_id, self._claimer.tasks)
        await reports.tell(settlement, is_written=is_written)

    def _heard(self, channel: str) -> None:
        if channel == "jobs:insert":
            self._wake()

    def _wake(self) -> None:
        if self._local_queue is None:
            self._alarm.ring()
        else:
            self._local_queue.pulse()

    async def _drain(self) -> None:
        """Let running jobs end within the grace period, then cancel them, then let go of those that do not listen."""
        grace = self._options.shutdown.grace_period.total_seconds()
        await self._wait_for_running(max(0.0, grace - self._stop.seconds_since), or_hurry=True)
        for running in self._running.values():
            running.cancel()
        await self._wait_for_running(SECONDS_AFTER_CANCELLING, or_hurry=False)
        for claim in [*self._running]:
            logger.error("job %d goes on although it was cancelled; it is given back all the same", claim.job_id)
            del self._running[claim]
            self._settler.settle(claim, self._interrupted())

    async def _wait_for_running(self, seconds: float, *, or_hurry: bool) -> None:
        if self._running:
            ended = asyncio.ensure_future(asyncio.wait([*self._running.values()]))
            await self._first_of(ended, seconds, or_hurry=or_hurry)

    async def _flush(self) -> None:
        """Write what is settled. When the database stays away too long, it is left to recovery."""
        await self._first_of(asyncio.ensure_future(self._settler.flush()), SECONDS_TO_FLUSH, or_hurry=True)
        if self._settler.unsettled:
            await self._first_of(asyncio.ensure_future(self._settler.flush()), SECONDS_AFTER_HURRY, or_hurry=False)
        if self._settler.unsettled:
            logger.error("%d outcomes could not be written; these jobs will run again", self._settler.unsettled)

    async def _first_of(self, ended: asyncio.Future[Any], seconds: float, *, or_hurry: bool) -> None:
        hurried = asyncio.ensure_future(self._stop.hurried.wait())
        try:
            watched = [ended, hurried] if or_hurry else [ended]
            await asyncio.wait(watched, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()
            ended.cancel()

    def _check_tasks(self) -> None:
        """Refuse tasks that could not run before the first job meets them."""
        self._app.registry.check()
        for task in self._app.tasks.values():
            if task.running.run_in == "process":
                TaskPlace.of(task)


@asynccontextmanager
async def _in_background(duty: Any, name: str) -> AsyncIterator[None]:
    task = asyncio.create_task(duty, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            logger.error("the duty %r ended with an error", name, exc_info=task.exception())


def _seconds(delay: timedelta | None) -> float:
    return 0.0 if delay is None else delay.total_seconds()
