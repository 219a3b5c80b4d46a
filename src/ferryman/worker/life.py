"""One run of a worker, from its first statement to its last: which parts there are, and in which order they live."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from ferryman.client.shared_clients import lent_by_worker
from ferryman.cron.scheduler import CronScheduler
from ferryman.cron.scheduling import crontabs_from
from ferryman.database.retrying import Retrying
from ferryman.database.timed import TimedDatabase
from ferryman.errors import DatabaseError, FerrymanError
from ferryman.hooks import ShutdownReason, WorkerInit, WorkerShutdown, WorkerStart
from ferryman.hooks.reporting import Telling
from ferryman.traces import find_tracing
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.claiming.direct import SECONDS_TO_FLUSH, ClaimLoop
from ferryman.worker.claiming.listener import Listener
from ferryman.worker.claiming.renewal import LongJobs
from ferryman.worker.duties.background import in_background
from ferryman.worker.duties.loop_watch import LoopWatch
from ferryman.worker.duties.schema_watch import SchemaWatch
from ferryman.worker.duties.worker_state import WorkerState
from ferryman.worker.running.attempt import Attempts
from ferryman.worker.running.blocking_clients import blocking_client
from ferryman.worker.running.cancellations import Cancellations
from ferryman.worker.running.children.pool import ChildPool
from ferryman.worker.running.handlers import Handlers
from ferryman.worker.running.interruptions import Interruptions
from ferryman.worker.running.progress import Progress
from ferryman.worker.running.slots import Running
from ferryman.worker.running.suspects import Suspects
from ferryman.worker.running.threads import Threads
from ferryman.worker.settling.job_log import told_jobs
from ferryman.worker.settling.outcomes import Completed, Unstarted
from ferryman.worker.settling.reports import Reports
from ferryman.worker.settling.settler import Settler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from ferryman.app import App
    from ferryman.client import Client
    from ferryman.errors import SchemaError
    from ferryman.hooks.kinds import Observer
    from ferryman.tasks import Task, TaskRegistry
    from ferryman.traces import Tracing
    from ferryman.worker.alarm import Alarm
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.local_queue import LocalQueue
    from ferryman.worker.claiming.waiting_list import WaitingList
    from ferryman.worker.duties.background import Duty
    from ferryman.worker.duties.recovery_duty import Recovering
    from ferryman.worker.duties.recycling import Recycling
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import WorkerOptions
    from ferryman.worker.running.attempt import Attempt
    from ferryman.worker.running.start_marks import StartMarks
    from ferryman.worker.settling.outcomes import Settlement
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")

MOST_UNSETTLED_PER_SLOT = 100
"""Beyond this many outcomes that wait to be written, or that hooks wait to hear of, no more jobs are claimed."""
SECONDS_FOR_FIRST_CLAIM = 1.0
"""How long other duties wait for it at most: claiming may be held up, and must not hold them up as well."""
SECONDS_FOR_FIRST_JOBS = 0.02
"""How long other duties let the first jobs begin."""
SECONDS_AFTER_HURRY = 5.0
"""How long the last writes may take when the worker shall end at once."""
SECONDS_FOR_SHUTDOWN_HOOKS = 5.0
"""How long hooks of `WorkerShutdown` may take."""


class Life:
    """The parts of a running worker, and what they tell each other.

    tasks: those of the application that this worker runs
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
        alarm: Alarm,
    ) -> None:
        self._app = app
        self._tasks = tasks
        self._options = options
        self._tracing = find_tracing(is_wanted=app.settings.tracing)
        self._client = client
        self._identity = identity
        self._stop = stop
        self._alarm = alarm
        self._problem: SchemaError | None = None
        self._threads = Threads()
        self._children = ChildPool(
            options.concurrency, max_jobs=options.child_max_jobs, max_memory=options.child_max_memory
        )
        self._recycling = self._make_recycling()
        self._blocking_client = blocking_client(client, options.hooks)
        self._connection = TimedDatabase(client.pool, client.schema)
        self._progress = Progress(self._connection)
        self._state = WorkerState(
            asyncio.get_running_loop(), slots=options.concurrency, running=lambda: len(self._running)
        )
        self._recovering = self._make_recovering()
        self._suspects = self._make_suspects()
        self._waiting_list = self._make_waiting_list()
        renewing = asyncio.Lock()
        self._claimer = Claimer(
            self._connection,
            identity,
            tasks.names,
            forbidden_flags=options.forbidden_flags,
            use_local_time=options.use_local_time,
            durable=options.durable_claims,
            known=self._known_claims,
            renewing=renewing,
            suspects=self._suspects,
        )
        self._reports = Reports(
            options.hooks,
            lambda: self._claimer.all_tasks,
            self._state.tally,
            width=options.concurrency,
            log_jobs=options.log_jobs,
        )
        self._news: Telling[Observer] = Telling(options.hooks.emit, width=1)
        self._settler = Settler(
            self._connection,
            report=self._report,
            complete_delay=_seconds(options.complete_job_batch_delay),
            fail_delay=_seconds(options.fail_job_batch_delay),
            lends=options.local_queue is None,
        )
        self._running = self._make_running()
        self._long_jobs = LongJobs(self._connection, self._running, self._progress, renewing=renewing)
        self._listener: Listener | None = None
        self._claim_loop = self._make_claim_loop()
        self._local_queue: LocalQueue | None = None

    async def run(self, *, once: bool) -> None:
        """Live. What cannot be gone on with is raised at the end, after everything that ran is settled."""
        with lent_by_worker(self._app.clients, self._client, self._blocking_client):
            await self._live(once=once)
        if self._problem is not None:
            raise self._problem

    async def _live(self, *, once: bool) -> None:
        options, client = self._options, self._client
        await self._announce(WorkerInit(client=client, schema=client.schema.name, concurrency=options.concurrency))
        async with self._duties(listens=options.use_notification_delivery and not once):
            if self._recovering is not None and not self._stop.begun.is_set():
                self._recovering.begin()
            await self._persist("registering tasks", self._claimer.register)
            if self._recovering is not None:
                await self._persist("registering the worker", self._recovering.registered)
            await self._announce(WorkerStart(client=client, worker_id=self._identity.id, extensions=options.extensions))
            logger.info(
                "worker %s runs %d task%s",
                self._identity.id,
                len(self._tasks),
                "" if len(self._tasks) == 1 else "s",
                extra={"event": "worker_started", "worker_id": self._identity.id},
            )
            is_error = True
            try:
                await self._work(once=once)
                is_error = False
            except asyncio.CancelledError:
                # Whoever cancels `run` asks for the same as whoever calls `request_shutdown`.
                is_error = False
                self._stop.request()
                raise
            finally:
                await self._end_undisturbed(is_error=is_error or self._problem is not None)

    async def _announce(self, event: Observer) -> None:
        """Tell hooks of something before the first job. One that hangs cannot keep the worker from ending."""
        async with self._stop.limiting(0.0):
            await self._options.hooks.emit(event)

    async def _work(self, *, once: bool) -> None:
        """Claim and run jobs until told to stop. A database that does not answer cannot keep the worker from ending."""
        async with self._stop.limiting(self._options.shutdown.grace_period.total_seconds()):
            await self._claim(once=once)
            if self._stop.retired_because is not None:
                await self._running.finish()

    async def _claim(self, *, once: bool) -> None:
        if once:
            await self._run_once()
            return
        async with in_background(self._after_first_claim(self._make_scheduler().run), "schedule crontabs"):
            if self._options.local_queue is None:
                await self._claim_loop.run()
            else:
                self._local_queue = self._make_local_queue()
                await self._local_queue.run()

    async def _run_once(self) -> None:
        """Run what is due. Such a worker does not live long enough to observe others, so it sweeps as by hand."""
        if self._recovering is None:
            await self._claim_loop.run_once()
            return
        sweeping = asyncio.create_task(self._recovering.sweep_by_age(), name="sweep")
        try:
            await self._claim_loop.run_once()
            if await self._stop.has_done(sweeping) and sweeping.result():
                await self._claim_loop.run_once()
        finally:
            sweeping.cancel()

    async def _end_undisturbed(self, *, is_error: bool) -> None:
        """End in order. Whoever cancels `run` meanwhile asks again, and is answered when this is done."""
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
        """Let jobs end, write their outcomes, tell hooks. What cannot be written in time is left to recovery.

        Each step is taken, whatever becomes of those before it.
        """
        grace = self._options.shutdown.grace_period.total_seconds()
        async with self._step("letting jobs end"):
            await self._running.end(max(0.0, grace - self._stop.seconds_since))
        async with self._step("giving back lost claims"):
            await self._give_back_lost()
        async with self._step("writing the last outcomes"):
            if self._settler.unsettled:
                logger.info(
                    "worker %s is stopping; writing the outcomes of %s",
                    self._identity.id,
                    told_jobs(self._settler.unsettled),
                    extra={
                        "event": "outcomes_pending",
                        "worker_id": self._identity.id,
                        "count": self._settler.unsettled,
                    },
                )
            await self._stop.wait_for(self._flush(), SECONDS_TO_FLUSH, or_hurry=True)
            if self._settler.unsettled:
                await self._stop.wait_for(self._settler.flush(), SECONDS_AFTER_HURRY, or_hurry=False)
        self._tell_what_is_left()
        async with self._step("telling hooks of the end"):
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
                "%s failed at the end of the worker; the next step follows",
                name,
                extra={"event": "ending_step_failed", "duty": name},
            )

    async def _give_back_lost(self) -> None:
        try:
            async with asyncio.timeout(SECONDS_AFTER_HURRY):
                await self._claimer.give_back_lost()
        except (FerrymanError, TimeoutError) as error:
            logger.warning(
                "jobs that were claimed over a broken connection are left to recovery: %s",
                error,
                extra={"event": "lost_claims_left"},
            )

    async def _flush(self) -> None:
        """Come back when all outcomes are written, and hooks were told of them."""
        await self._settler.flush()
        await self._reports.drain()
        await self._news.drain()

    def _is_settled(self) -> bool:
        return not self._settler.unsettled and not self._untold

    @property
    def _untold(self) -> int:
        return self._reports.untold + self._news.untold

    def _tell_what_is_left(self) -> None:
        if self._settler.unsettled:
            logger.error(
                "%d outcomes could not be written; these jobs will run again",
                self._settler.unsettled,
                extra={"event": "outcomes_unwritten", "count": self._settler.unsettled},
            )
        untold = self._reports.close() + self._news.close()
        if untold:
            logger.error(
                "the worker ends before hooks have handled %d events; their outcomes are written",
                untold,
                extra={"event": "events_untold", "count": untold},
            )

    def _tell_stopped(self) -> None:
        tally = self._state.tally
        logger.info(
            "worker %s stopped; its jobs: %d completed, %d failed, %d given back",
            self._identity.id,
            tally.done,
            tally.failed,
            tally.returned,
            extra={"event": "worker_stopped", "worker_id": self._identity.id},
        )

    @asynccontextmanager
    async def _duties(self, *, listens: bool) -> AsyncIterator[None]:
        """Everything that goes on in the background, ended in order when the block ends."""
        options = self._options
        duties: dict[str, Duty] = {"settle": self._settler.run_until_closed, "tell progress": self._progress.run}
        duties["renew the locks of long jobs"] = self._long_jobs.run
        if self._recycling is not None:
            duties["watch memory"] = self._recycling.watch
        if self._recovering is not None:
            duties["recover"] = self._after_first_claim(self._recovering.run)
            duties["delete old records"] = self._after_first_claim(self._recovering.prune)
        if self._waiting_list is not None:
            duties["list waiting jobs"] = self._waiting_list.run
        if listens:
            schema_watch = SchemaWatch(self._client, self._give_up)
            heard = {"jobs:insert": self._wake, "worker:migrate": schema_watch.announced}
            pool = self._client.pool
            self._listener = Listener(
                self._client.address,
                self._client.schema,
                lambda channel: heard[channel](),
                is_behind_pooler=lambda: pool.is_behind_pooler,
                poll_seconds=options.poll_interval.total_seconds(),
            )
            duties |= {"listen": self._after_first_claim(self._listener.run), "watch the schema": schema_watch.run}
        if options.shutdown.shutdown_signal is not None:
            duties["wait for the shutdown signal"] = partial(self._stop.after, options.shutdown.shutdown_signal())
        async with AsyncExitStack() as stack:
            stack.callback(self._tell_stopped)
            if self._recovering is not None:
                # Last of all: for as long as anything goes on, others must know that we live.
                stack.push_async_callback(self._say_goodbye, self._recovering)
            await stack.enter_async_context(self._children)
            stack.callback(self._blocking_client.close)
            stack.callback(self._threads.close)
            for name, duty in duties.items():
                await stack.enter_async_context(in_background(duty, name))
            stack.callback(self._settler.close)
            if options.blocked_loop_threshold is not None:
                stack.enter_context(LoopWatch(_seconds(options.blocked_loop_threshold), self._running.describe))
            yield

    def _after_first_claim(self, duty: Duty) -> Duty:
        """The same, but not in the way of the first claim and its jobs: not for a connection, nor for the processor."""

        async def wait_and_do() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SECONDS_FOR_FIRST_CLAIM):
                    await self._claimer.has_claimed.wait()
                    await asyncio.sleep(SECONDS_FOR_FIRST_JOBS)
            await duty()

        return wait_and_do

    async def _say_goodbye(self, recovering: Recovering) -> None:
        await recovering.close(has_settled_all=self._settler.unsettled == 0)

    async def _persist(self, duty: str, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what the worker cannot do without, until it works or the worker is told to stop."""
        trouble = Retrying(duty, logger=logger)
        while not self._stop.begun.is_set():
            acting = asyncio.create_task(act(), name=duty)
            if not await self._stop.has_done(acting):
                return
            try:
                acting.result()
            except DatabaseError as error:
                await self._alarm.wait(trouble.pause_after(error))
            else:
                trouble.is_over()
                return

    def _report(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """What follows from settlements that were written, or refused. Nothing here waits for hooks."""
        ended = [*written, *refused]
        if any(each.claim.queue_id is not None or not isinstance(each.outcome, Completed) for each in ended):
            # The next job of that queue may run now, or this one again later, and nobody announces it.
            self._wake()
        elif self._suspects is not None and self._suspects.is_any_of(ended):
            self._wake()  # the next suspect may be claimed
        if self._local_queue is not None:
            self._local_queue.have_settled(written, refused)
        self._state.tally.written += len(written)
        self._reports.put(written, refused)

    def _wake(self) -> None:
        """There may be jobs to claim."""
        if self._local_queue is None:
            self._claim_loop.wake()
        else:
            self._local_queue.pulse()

    def _has_free_slot(self) -> None:
        if self._local_queue is None:
            self._claim_loop.has_free_slot()
        else:
            self._local_queue.serve()
            if self._is_fenced():
                self._alarm.ring()  # the queue was refused, and looks again soon: no event lifts the fence

    def _next_waiting(self) -> Claim | None:
        return None if self._local_queue is None else self._local_queue.take()

    def _retire(self, reason: str) -> None:
        """Take no more jobs, and end when those that run have ended."""
        if self._stop.begun.is_set():
            return
        logger.info(
            "worker %s takes no more jobs, because %s; it shuts down when its running jobs have ended",
            self._identity.id,
            reason,
            extra={"event": "worker_recycled", "worker_id": self._identity.id},
        )
        self._stop.retire(reason)

    def _give_up(self, problem: SchemaError) -> None:
        self._problem = problem
        self._stop.request()

    def _was_swept(self) -> None:
        """Others have our jobs: let go of all that was claimed in the old name. Whatever comes of it is refused."""
        self._running.lose_all_but(self._identity.id)
        self._give_back_waiting()

    def _is_fenced(self) -> bool:
        """Whether we may have been taken for dead. Then nothing is started: others may have it, or soon will."""
        return self._recovering is not None and self._recovering.is_fenced()

    def _may_start(self, claim: Claim) -> bool:
        return self._running.may_start(claim)

    def _is_held_back(self) -> bool:
        if self._suspects is not None and self._suspects.wants_room:
            return True
        behind = max(self._settler.unsettled, self._untold)
        return self._is_fenced() or behind > self._options.concurrency * MOST_UNSETTLED_PER_SLOT

    def _holds(self, claim: Claim) -> bool:
        """Whether the job of this claim runs, waits to run, or waits to be settled."""
        return claim in self._known_claims() and claim not in self._settler.left_locked

    def _give_back_waiting(self) -> None:
        if self._local_queue is not None:
            self._local_queue.give_back()

    def _known_claims(self) -> list[Claim]:
        waiting = () if self._local_queue is None else self._local_queue.claims
        return [*waiting, *self._running.claims, *self._settler.held_claims]

    def _free_slots(self) -> int:
        return 0 if self._is_fenced() else self._options.concurrency - len(self._running)

    def _task_of(self, claim: Claim) -> Task[..., Any]:
        return self._tasks.find(self._name_of(claim))

    def _name_of(self, claim: Claim) -> str:
        """The identifier that the job carries, which may be an alias of its task."""
        return self._claimer.all_tasks[claim.task_id]

    def _make_recycling(self) -> Recycling | None:
        options = self._options
        if options.max_jobs is None and options.max_memory is None:
            return None
        from ferryman.worker.duties.recycling import Recycling  # noqa: PLC0415 - not every worker is replaced

        return Recycling(max_jobs=options.max_jobs, max_memory=options.max_memory, retire=self._retire)

    def _make_recovering(self) -> Recovering | None:
        options = self._options
        if not options.recovery.settings.enabled:
            return None
        from ferryman.worker.duties.recovery_duty import Recovering  # noqa: PLC0415 - not every worker registers

        return Recovering(
            self._client,
            self._identity,
            options.recovery.settings,
            tasks=self._tasks.values(),
            hooks=options.hooks,
            concurrency=options.concurrency,
            prefetches=options.local_queue is not None,
            state=self._state.take,
            on_swept=self._was_swept,
            on_recovered=self._wake,
            tracing=self._tracing,
        )

    def _make_running(self) -> Running:
        options = self._options
        delay = options.shutdown.interrupted_job_retry_delay.total_seconds()
        interruptions = Interruptions(options.hooks, delay, self._name_of)
        cancellations = Cancellations(self._stop)
        attempts = Attempts(
            Handlers(
                self._threads,
                self._children,
                cancellations=cancellations,
                interrupted=interruptions.usual,
                may_start=self._may_start,
                on_crash=options.recovery.settings.on_crash,
                max_crashes=options.recovery.settings.max_crashes,
                crash_window=options.recovery.settings.crash_window,
                tracing=self._tracing,
            ),
            hooks=options.hooks,
            client=self._client,
            blocking_client=self._blocking_client,
            extensions=options.extensions,
            shutting_down=self._stop.begun,
            progress=self._progress,
            name_of=self._name_of,
            may_start=self._may_start,
            counted=None if self._recycling is None else self._recycling.counted,
            traced=None if self._tracing is None else self._make_traced(self._tracing),
        )
        return Running(
            attempts,
            self._settler,
            self._stop,
            concurrency=options.concurrency,
            find_task=self._task_of,
            take=self._next_waiting,
            marks=self._make_marks(),
            make_room=self._make_room,
            is_fenced=None if self._recovering is None else self._recovering.is_fenced,
            identity=self._identity,
            cancellations=cancellations,
            interruptions=interruptions,
            on_end=self._has_free_slot,
        )

    def _make_traced(self, tracing: Tracing) -> Callable[[Task[..., Any], Attempt], Attempt]:
        from ferryman.worker.running.traced_attempts import TracedAttempts  # noqa: PLC0415 - not every worker is traced

        return TracedAttempts(tracing, lambda claim: claim.worker_id != self._identity.id).of

    def _make_marks(self) -> StartMarks | None:
        if self._recovering is None:
            return None
        from ferryman.worker.running.start_marks import StartMarks  # noqa: PLC0415 - not every worker registers

        default = None if self._options.local_queue is None else self._options.recovery.settings.on_crash
        return StartMarks(self._connection, default, listed=self._waiting_list or ())

    def _make_suspects(self) -> Suspects | None:
        """Without recovery, nobody would know which jobs ran when this worker died."""
        if self._recovering is None:
            return None
        return Suspects(
            slots=self._options.concurrency,
            is_held=self._holds,
            is_alone=lambda: len(self._running) <= 1,
            give_back_waiting=self._give_back_waiting,
            give_back=lambda claim: self._settler.settle(claim, Unstarted()),
            is_stopping=self._stop.begun.is_set,
        )

    async def _make_room(self, claim: Claim) -> bool:
        return self._suspects is None or await self._suspects.make_room(claim)

    def _make_waiting_list(self) -> WaitingList | None:
        if self._recovering is None or self._options.local_queue is None:
            return None
        from ferryman.worker.claiming.waiting_list import WaitingList  # noqa: PLC0415 - not every worker claims ahead

        return WaitingList(
            self._connection,
            self._identity,
            waiting=lambda: () if self._local_queue is None else self._local_queue.claims,
            seconds=self._options.recovery.settings.heartbeat_interval.total_seconds(),
        )

    def _make_claim_loop(self) -> ClaimLoop:
        return ClaimLoop(
            self._claimer,
            self._running,
            self._settler,
            self._stop,
            self._alarm,
            concurrency=self._options.concurrency,
            poll_seconds=self._options.poll_interval.total_seconds(),
            is_held_back=self._is_held_back,
            is_settled=self._is_settled,
            flush=self._flush,
            hears_of_jobs=lambda: self._listener is not None and self._listener.is_listening,
        )

    def _make_local_queue(self) -> LocalQueue:
        from ferryman.worker.claiming.local_queue import LocalQueue  # noqa: PLC0415 - not every worker claims ahead

        options = self._options
        assert options.local_queue is not None  # noqa: S101 - asked for by the caller
        return LocalQueue(
            options.local_queue,
            self._claimer,
            identity=self._identity,
            hooks=options.hooks,
            concurrency=options.concurrency,
            poll_seconds=options.poll_interval.total_seconds(),
            alarm=self._alarm,
            stop=self._stop.begun,
            free_slots=self._free_slots,
            begin=self._running.serve,
            settle=self._settler.settle,
            is_held_back=self._is_held_back,
            news=self._news,
        )

    def _make_scheduler(self) -> CronScheduler:
        options = self._options
        return CronScheduler(
            self._client,
            [*self._app.crontabs, *crontabs_from(options.crontabs)],
            hooks=options.hooks,
            use_local_time=options.use_local_time,
        )


def _seconds(delay: timedelta | None) -> float:
    return 0.0 if delay is None else delay.total_seconds()
