"""One run of a worker: starts its parts in order, and stops them in order.

docs/shutdown.md has the order of a shutdown as a user sees it. `_end` is its first half. The second is the exit stack
of `_background`, whose entries end from the last to the first.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from ferryman.client.shared_clients import lent_by_worker
from ferryman.errors import FerrymanError
from ferryman.hooks import ShutdownReason, WorkerInit, WorkerShutdown, WorkerStart
from ferryman.worker.background import after_first_claim, in_background, persist
from ferryman.worker.duties.loop_watch import LoopWatch
from ferryman.worker.parts import Parts
from ferryman.worker.settling.job_log import format_job_count
from ferryman.worker.stopping import SECONDS_TO_FLUSH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ferryman.app import App
    from ferryman.client import Client
    from ferryman.hooks.kinds import Observer
    from ferryman.tasks import TaskRegistry
    from ferryman.worker.background import Duty
    from ferryman.worker.duties.recovery_duty import RecoveryDuty
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import WorkerOptions
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")

SECONDS_AFTER_HURRY = 5.0
"""How long the last writes may take after a second request to shut down."""
SECONDS_FOR_SHUTDOWN_HOOKS = 5.0
"""How long hooks of `WorkerShutdown` may take."""


class Life:
    """One run of a worker, from its first statement to its last.

    tasks: the tasks of the application that this worker runs
    once: True if it runs the jobs that are due and exits
    """

    def __init__(
        self,
        app: App,
        tasks: TaskRegistry,
        options: WorkerOptions,
        client: Client,
        *,
        identity: Identity,
        stop: Stopping,
        once: bool,
    ) -> None:
        self.parts = Parts(app, tasks, options, client, identity=identity, stop=stop, once=once)
        self._app = app
        self._tasks = tasks
        self._options = options
        self._client = client
        self._identity = identity
        self._stop = stop
        self._once = once

    async def run(self) -> None:
        """Run the worker to its end. A problem that ends it is raised after everything that ran is settled."""
        with lent_by_worker(self._app.clients, self._client, self.parts.blocking_client):
            await self._live()
        if self._stop.problem is not None:
            raise self._stop.problem

    async def _live(self) -> None:
        options, client, recovery = self._options, self._client, self.parts.recovery
        await self._announce(WorkerInit(client=client, schema=client.schema.name, concurrency=options.concurrency))
        async with self._background():
            if recovery is not None and not self._stop.begun.is_set():
                recovery.begin()
            await persist(self.parts.tasks.register, "registering tasks", self._stop)
            if recovery is not None:
                await persist(recovery.registered, "registering the worker", self._stop)
            await self._announce(WorkerStart(client=client, worker_id=self._identity.id, extensions=options.extensions))
            logger.info(
                "worker %s started with %d task%s",
                self._identity.id,
                len(self._tasks),
                "" if len(self._tasks) == 1 else "s",
                extra={"event": "worker_started", "worker_id": self._identity.id},
            )
            is_error = True
            try:
                await self._work()
                is_error = False
            except asyncio.CancelledError:
                # Cancelling `run` means the same as calling `request_shutdown`.
                is_error = False
                self._stop.request()
                raise
            finally:
                await self._end_undisturbed(is_error=is_error or self._stop.problem is not None)

    async def _announce(self, event: Observer) -> None:
        """Report an event to hooks before the first job. A hook that hangs cannot hold up shutdown."""
        async with self._stop.limiting(0.0):
            await self._options.hooks.emit(event)

    async def _work(self) -> None:
        """Claim and run jobs until shutdown, which a database that does not answer cannot hold up."""
        async with self._stop.limiting(self._options.shutdown.grace_period.total_seconds()):
            if self._once:
                await self._run_once()
            else:
                schedule = after_first_claim(self.parts.make_scheduler().run, self.parts.claimer.has_claimed)
                async with in_background(schedule, "schedule crontabs"):
                    await self.parts.source.run()
            if self._stop.retired_because is not None:
                await self.parts.slots.finish()

    async def _run_once(self) -> None:
        """Run the jobs that are due. Too short a run to observe other workers, so it sweeps as a sweep by hand does."""
        source, recovery = self.parts.source, self.parts.recovery
        if recovery is None:
            await source.run()
            return
        sweeping = asyncio.create_task(recovery.sweep_by_age(), name="sweep")
        try:
            await source.run()
            if await self._stop.has_done(sweeping) and sweeping.result():
                await source.run()
        finally:
            sweeping.cancel()

    async def _end_undisturbed(self, *, is_error: bool) -> None:
        """Shut down in order. Cancelling `run` meanwhile counts as a second request, and is raised at the end."""
        ending = asyncio.create_task(self._end(is_error=is_error), name="end")
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError as again:
                cancelled = again
                self._stop.request()
        if ending.cancelled():  # the program ends, and the loop cancels all tasks
            await self._end(is_error=is_error)
        if cancelled is not None:
            raise cancelled

    async def _end(self, *, is_error: bool) -> None:
        """Let jobs end, write their outcomes, report to hooks. Outcomes that miss the time limit are left to recovery.

        Each step is taken, even if an earlier one fails.
        """
        grace = self._options.shutdown.grace_period.total_seconds()
        async with self._step("letting jobs end"):
            await self.parts.slots.end(max(0.0, grace - self._stop.seconds_since))
        async with self._step("giving back lost claims"):
            await self._give_back_lost()
        async with self._step("writing the last outcomes"):
            if self.parts.settler.unsettled:
                logger.info(
                    "worker %s is stopping; writing the outcomes of %s",
                    self._identity.id,
                    format_job_count(self.parts.settler.unsettled),
                    extra={
                        "event": "outcomes_pending",
                        "worker_id": self._identity.id,
                        "count": self.parts.settler.unsettled,
                    },
                )
            await self._stop.wait_for(self.parts.backlog.flush(), SECONDS_TO_FLUSH, or_hurry=True)
            if self.parts.settler.unsettled:
                await self._stop.wait_for(self.parts.settler.flush(), SECONDS_AFTER_HURRY, or_hurry=False)
        self._tell_what_is_left()
        async with self._step("reporting the shutdown to hooks"):
            reason = ShutdownReason.SIGNAL if self._stop.by_signal else ShutdownReason.GRACEFUL
            event = WorkerShutdown(
                client=self._client,
                worker_id=self._identity.id,
                reason=ShutdownReason.ERROR if is_error else reason,
            )
            await self._options.hooks.emit(event, within=timedelta(seconds=SECONDS_FOR_SHUTDOWN_HOOKS))

    @asynccontextmanager
    async def _step(self, name: str) -> AsyncIterator[None]:
        try:
            yield
        except Exception:
            logger.exception(
                "a step of the worker's shutdown failed: %s; continuing with the next step",
                name,
                extra={"event": "ending_step_failed", "duty": name},
            )

    async def _give_back_lost(self) -> None:
        try:
            async with asyncio.timeout(SECONDS_AFTER_HURRY):
                await self.parts.lost.give_back(at_once=True)
        except (FerrymanError, TimeoutError) as error:
            logger.warning(
                "could not give back jobs that were claimed on a connection that broke; they stay locked until "
                "recovery releases them: %s",
                error,
                extra={"event": "lost_claims_left"},
            )

    def _tell_what_is_left(self) -> None:
        if self.parts.settler.unsettled:
            logger.error(
                "the worker ended before it could record how %s ended; they stay locked until recovery releases them, "
                "and may then run again",
                format_job_count(self.parts.settler.unsettled),
                extra={"event": "outcomes_unwritten", "count": self.parts.settler.unsettled},
            )
        untold = self.parts.backlog.close()
        if untold:
            logger.error(
                "the worker ended before its hooks had handled %d events; hooks are not called for these events later. "
                "The outcomes of the jobs are recorded all the same. To avoid this, make the hooks faster",
                untold,
                extra={"event": "events_untold", "count": untold},
            )

    def _tell_stopped(self) -> None:
        tally = self.parts.tally
        logger.info(
            "worker %s stopped; its jobs: %d completed, %d failed, %d given back",
            self._identity.id,
            tally.done,
            tally.failed,
            tally.returned,
            extra={"event": "worker_stopped", "worker_id": self._identity.id},
        )

    def _duties(self) -> dict[str, Duty]:
        """The background duties, in the order in which they start."""
        parts, options, has_claimed = self.parts, self._options, self.parts.claimer.has_claimed
        duties: dict[str, Duty] = {
            "settle": parts.settler.run_until_closed,
            "write progress": parts.progress.run,
            "renew the locks of long jobs": parts.renewal.run,
        }
        if parts.recycling is not None:
            duties["watch memory"] = parts.recycling.watch
        if parts.recovery is not None:
            duties["recover"] = after_first_claim(parts.recovery.run, has_claimed)
            duties["delete old records"] = after_first_claim(parts.recovery.prune, has_claimed)
        if parts.waiting_list is not None:
            duties["list waiting jobs"] = parts.waiting_list.run
        if parts.listener is not None:
            duties["listen"] = after_first_claim(parts.listener.run, has_claimed)
            duties["watch the schema"] = parts.schema_watch.run
        if options.shutdown.shutdown_signal is not None:
            duties["wait for the shutdown signal"] = partial(self._stop.after, options.shutdown.shutdown_signal())
        return duties

    @asynccontextmanager
    async def _background(self) -> AsyncIterator[None]:
        """Run the background duties for as long as the block lasts, then end them from the bottom up."""
        parts, patience = self.parts, self._options.blocked_loop_threshold
        duties = self._duties()
        async with AsyncExitStack() as stack:
            stack.callback(self._tell_stopped)
            if parts.recovery is not None:
                # Last of all: for as long as anything runs, others must not declare this worker dead.
                stack.push_async_callback(self._deregister, parts.recovery)
            await stack.enter_async_context(parts.children)
            stack.callback(parts.blocking_client.close)
            stack.callback(parts.threads.close)
            for name, duty in duties.items():
                await stack.enter_async_context(in_background(duty, name))
            stack.callback(parts.settler.close)  # only from here on does a cancellation end the settler
            if patience is not None:
                stack.enter_context(LoopWatch(patience.total_seconds(), parts.slots))
            yield

    async def _deregister(self, recovery: RecoveryDuty) -> None:
        await recovery.close(has_settled_all=self.parts.settler.unsettled == 0)
