"""The parts of a running worker, and how they are connected."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ferryman.cron.due_minutes import crontabs_from
from ferryman.cron.scheduler import CronScheduler
from ferryman.database.timed import TimedDatabase
from ferryman.hooks.reporting import Telling
from ferryman.traces import find_tracing
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.claiming.direct import DirectSource
from ferryman.worker.claiming.held_claims import HeldClaims
from ferryman.worker.claiming.listener import Listener
from ferryman.worker.claiming.lost_replies import LostReplies
from ferryman.worker.claiming.renewal import LockRenewal
from ferryman.worker.claiming.task_numbers import TaskNumbers
from ferryman.worker.duties.schema_watch import SchemaWatch
from ferryman.worker.duties.worker_state import StateRecord, Tally
from ferryman.worker.running.attempt import Attempts
from ferryman.worker.running.blocking_clients import blocking_client
from ferryman.worker.running.cancellations import Cancellations
from ferryman.worker.running.children.pool import ChildPool
from ferryman.worker.running.handlers import Handlers
from ferryman.worker.running.interruptions import Interruptions
from ferryman.worker.running.progress import ProgressWriter
from ferryman.worker.running.slots import Slots
from ferryman.worker.running.suspects import Suspects
from ferryman.worker.running.threads import Threads
from ferryman.worker.settling.backlog import Backlog
from ferryman.worker.settling.reports import Reports
from ferryman.worker.settling.settler import Settler
from ferryman.worker.source import SourceParts
from ferryman.worker.start_guard import StartGuard

if TYPE_CHECKING:
    from datetime import timedelta

    from ferryman.app import App
    from ferryman.client import Client
    from ferryman.hooks.kinds import Observer
    from ferryman.recovery.safety_window import SafetyWindow
    from ferryman.tasks import TaskRegistry
    from ferryman.worker.claiming.waiting_list import WaitingList
    from ferryman.worker.duties.recovery_duty import RecoveryDuty
    from ferryman.worker.duties.recycling import Recycling
    from ferryman.worker.identity import Identity
    from ferryman.worker.options import WorkerOptions
    from ferryman.worker.running.start_marks import StartMarks
    from ferryman.worker.running.traced_attempts import TracedAttempts
    from ferryman.worker.source import JobSource
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")


class Parts:
    """All parts of one worker. Each gets the parts that it calls; calls in the other direction are registered last.

    tasks: the tasks of the application that this worker runs
    once: True if the worker runs the jobs that are due and exits. It does not listen or claim ahead then
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
        self._app = app
        self._options = options
        self._client = client
        self._identity = identity
        self._stop = stop
        self._tracing = find_tracing(is_wanted=app.settings.tracing)
        self._registers = options.recovery.settings.enabled

        self.database = TimedDatabase(client.pool, client.schema)
        self.tasks = TaskNumbers(self.database, tasks)
        self.held = HeldClaims()
        self.lost = LostReplies(self.database, identity, self.held)
        self.window = self._make_window()
        self.guard = StartGuard(identity, self.window)

        self.tally = Tally()
        self.settler = Settler(
            self.database,
            complete_delay=_seconds(options.complete_job_batch_delay),
            fail_delay=_seconds(options.fail_job_batch_delay),
            lends=options.local_queue is None,
        )
        self.reports = Reports(
            options.hooks, self.tasks, self.tally, width=options.concurrency, log_jobs=options.log_jobs
        )
        self.news: Telling[Observer] = Telling(options.hooks.emit, width=1)
        self.backlog = Backlog(self.settler, self.reports, self.news, concurrency=options.concurrency)

        self.threads = Threads()
        self.children = ChildPool(
            options.concurrency, max_jobs=options.child_max_jobs, max_memory=options.child_max_memory
        )
        self.blocking_client = blocking_client(client, options.hooks)
        self.progress = ProgressWriter(self.database)
        self.recycling = self._make_recycling()
        self.suspects = self._make_suspects()
        self.waiting_list = self._make_waiting_list()
        self.slots = self._make_slots()
        self.renewal = LockRenewal(self.database, self.slots, self.progress, self.held)

        self.claimer = Claimer(
            self.database,
            identity,
            self.tasks,
            self.lost,
            forbidden_flags=options.forbidden_flags,
            use_local_time=options.use_local_time,
            durable=options.durable_claims,
            suspects=self.suspects,
        )
        self.listener = self._make_listener() if options.use_notification_delivery and not once else None
        self.schema_watch = SchemaWatch(client, stop)
        self.source = self._make_source(once=once)
        self.recovery = self._make_recovery(tasks)

        # Calls in the other direction.
        self.slots.draw_from(self.source)
        self.held.include(self.source, self.slots, self.settler)
        self.settler.tell(self.source)
        if self.suspects is not None:
            self.suspects.watch(self.slots, self.source)
            self.settler.tell(self.suspects)
        if self.waiting_list is not None:
            self.waiting_list.draw_from(self.source)
        self.settler.tell(self.reports)  # work first, hooks last
        if self.listener is not None:
            self.listener.on("jobs:insert", self.source.wake)
            self.listener.on("worker:migrate", self.schema_watch.announced)

    def make_scheduler(self) -> CronScheduler:
        """Make the scheduler. Hooks of `WorkerInit` and `WorkerStart` may have added schedules by then."""
        options = self._options
        return CronScheduler(
            self._client,
            [*self._app.crontabs, *crontabs_from(options.crontabs)],
            hooks=options.hooks,
            use_local_time=options.use_local_time,
        )

    def _make_window(self) -> SafetyWindow | None:
        if not self._registers:
            return None
        from ferryman.recovery.rhythm import Rhythm  # noqa: PLC0415 - not every worker registers
        from ferryman.recovery.safety_window import SafetyWindow  # noqa: PLC0415

        return SafetyWindow.of(Rhythm.of(self._options.recovery.settings))

    def _make_recycling(self) -> Recycling | None:
        options = self._options
        if options.max_jobs is None and options.max_memory is None:
            return None
        from ferryman.worker.duties.recycling import Recycling  # noqa: PLC0415 - not every worker is replaced

        return Recycling(self._identity, self._stop, max_jobs=options.max_jobs, max_memory=options.max_memory)

    def _make_suspects(self) -> Suspects | None:
        """None without recovery: no other worker would know which jobs ran when this one died."""
        if not self._registers:
            return None
        return Suspects(concurrency=self._options.concurrency, held=self.held, settler=self.settler, stop=self._stop)

    def _make_waiting_list(self) -> WaitingList | None:
        if not self._registers or self._options.local_queue is None:
            return None
        from ferryman.worker.claiming.waiting_list import WaitingList  # noqa: PLC0415 - not every worker claims ahead

        seconds = self._options.recovery.settings.heartbeat_interval.total_seconds()
        return WaitingList(self.database, self._identity, seconds=seconds)

    def _make_marks(self) -> StartMarks | None:
        if not self._registers:
            return None
        from ferryman.worker.running.start_marks import StartMarks  # noqa: PLC0415 - not every worker registers

        default = None if self._options.local_queue is None else self._options.recovery.settings.on_crash
        return StartMarks(self.database, default, listed=self.waiting_list or ())

    def _make_traced(self) -> TracedAttempts | None:
        if self._tracing is None:
            return None
        from ferryman.worker.running.traced_attempts import TracedAttempts  # noqa: PLC0415 - not every worker is traced

        return TracedAttempts(self._tracing, self._identity)

    def _make_slots(self) -> Slots:
        options, recovery = self._options, self._options.recovery.settings
        delay = options.shutdown.interrupted_job_retry_delay.total_seconds()
        interruptions = Interruptions(options.hooks, delay, self.tasks)
        cancellations = Cancellations(self._stop)
        handlers = Handlers(
            self.threads,
            self.children,
            cancellations=cancellations,
            interrupted=interruptions.usual,
            guard=self.guard,
            on_crash=recovery.on_crash,
            max_crashes=recovery.max_crashes,
            crash_window=recovery.crash_window,
            tracing=self._tracing,
        )
        attempts = Attempts(
            handlers,
            hooks=options.hooks,
            client=self._client,
            blocking_client=self.blocking_client,
            extensions=options.extensions,
            shutting_down=self._stop.begun,
            progress=self.progress,
            tasks=self.tasks,
            guard=self.guard,
            recycling=self.recycling,
            traced=self._make_traced(),
        )
        return Slots(
            attempts,
            self.settler,
            self._stop,
            concurrency=options.concurrency,
            tasks=self.tasks,
            guard=self.guard,
            identity=self._identity,
            marks=self._make_marks(),
            suspects=self.suspects,
            cancellations=cancellations,
            interruptions=interruptions,
        )

    def _make_listener(self) -> Listener:
        pool = self._client.pool
        return Listener(
            self._client.address,
            self._client.schema,
            is_behind_pooler=lambda: pool.is_behind_pooler,
            poll_seconds=self._options.poll_interval.total_seconds(),
        )

    def _make_source(self, *, once: bool) -> JobSource:
        options = self._options
        parts = SourceParts(self.claimer, self.slots, self.settler, self._stop, self.guard, self.backlog)
        poll_seconds = options.poll_interval.total_seconds()
        if once or options.local_queue is None:
            return DirectSource(parts, listener=self.listener, poll_seconds=poll_seconds, once=once)
        from ferryman.worker.claiming.local_queue import LocalQueue  # noqa: PLC0415 - not every worker claims ahead

        return LocalQueue(
            parts,
            options.local_queue,
            identity=self._identity,
            hooks=options.hooks,
            poll_seconds=poll_seconds,
            news=self.news,
        )

    def _make_recovery(self, tasks: TaskRegistry) -> RecoveryDuty | None:
        options = self._options
        if self.window is None:
            return None
        from ferryman.worker.duties.recovery_duty import RecoveryDuty  # noqa: PLC0415 - not every worker registers

        return RecoveryDuty(
            self._client,
            self._identity,
            options.recovery.settings,
            self.window,
            tasks=tasks.values(),
            hooks=options.hooks,
            prefetches=options.local_queue is not None,
            state=StateRecord(asyncio.get_running_loop(), self.slots, self.tally),
            slots=self.slots,
            source=self.source,
            tracing=self._tracing,
        )


def _seconds(delay: timedelta | None) -> float:
    return 0.0 if delay is None else delay.total_seconds()
