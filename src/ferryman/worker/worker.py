"""A worker, as a program sees it: made with options, run once, asked to stop."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferryman.cron.due_minutes import crontabs_from
from ferryman.database.sessions import AsyncSession
from ferryman.errors import ConfigurationError
from ferryman.schema import migrate_for_work
from ferryman.script_guard import refuse_while_importing
from ferryman.worker.identity import Identity
from ferryman.worker.life import Life
from ferryman.worker.options import WorkerOptions
from ferryman.worker.running.children.orders import TaskPlace
from ferryman.worker.stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Unpack

    from ferryman.app import App
    from ferryman.client import Client
    from ferryman.tasks import TaskRegistry
    from ferryman.worker.options import WorkerChoices

logger = logging.getLogger("ferryman.worker")

_FOR_EVER = 86_400.0 * 365


class Worker:
    """Runs the jobs of an application.

        await Worker(app, concurrency=20).run()

    Options are those of `WorkerOptions`, given as keywords, as one object, or by the app. A worker runs once.
    """

    def __init__(self, app: App, options: WorkerOptions | None = None, **given: Unpack[WorkerChoices]) -> None:
        self._app = app
        chosen = options or app.worker_options
        self._options = WorkerOptions(**given) if chosen is None else replace(chosen, **given)
        recovery = self._options.recovery.settings
        self._identity = Identity(registers=recovery.enabled)
        for doubt in recovery.doubts if recovery.enabled else ():
            logger.warning(
                "%s; the worker uses it all the same. Change it if you did not choose it on purpose",
                doubt,
                extra={"event": "recovery_setting_unusual"},
            )
        self._stopping: Stopping | None = None
        self._stop_requests: list[bool] = []
        self._life: Life | None = None

    @property
    def worker_id(self) -> str:
        """The id that claimed jobs carry in the database. A worker that was declared dead continues under another."""
        return self._identity.id

    @property
    def recycled_because(self) -> str | None:
        """Why the worker ended by itself: it has run `max_jobs`, or used more than `max_memory`. None if it did not."""
        return None if self._stopping is None else self._stopping.retired_because

    def request_shutdown(self, *, by_signal: bool = False) -> None:
        """Ask the worker to end. Running jobs get their grace period; asked again, they are cancelled at once.

        by_signal: True reports a signal as the reason to hooks; for programs that handle signals themselves
        """
        self._stop_requests.append(by_signal)
        if self._stopping is not None:
            self._stopping.request(by_signal=by_signal)

    def create_utils(self) -> Client:
        """A client of the same queue, with the worker's hooks and time mode.

            async with worker.create_utils() as client: ...

        It has connections of its own, so it can be used before, during and after `run()`.
        """
        options = self._options
        return self._app.client(
            use_local_time=options.use_local_time, max_connections=options.max_connections, hooks=options.hooks
        )

    async def run(self) -> None:
        """Run jobs until asked to stop, or until `max_jobs` or `max_memory` is reached.

        Two problems end it with an error: the database cannot be reached at the start, or its schema is migrated to a
        revision that this version does not support. Running jobs are settled before the error is raised. Any other
        database error is retried.
        """
        await self._live(once=False)

    async def run_once(self) -> None:
        """Run every job that is due now, settle all of them, and return."""
        await self._live(once=True)

    async def _live(self, *, once: bool) -> None:
        if self._stopping is not None:
            raise ConfigurationError("this Worker has already run, and a Worker runs once. Create a new one.")
        refuse_while_importing()
        tasks = self._check_app()
        stop = self._stopping = Stopping()
        for by_signal in self._stop_requests[:1]:
            stop.request(by_signal=by_signal)
        options = self._options
        with stop.on_signals() if options.shutdown.listen_os_shutdown_signals else nullcontext():
            async with self._lifespans(stop) as extensions:
                if extensions is None:
                    return
                options = replace(options, extensions={**options.extensions, **extensions})
                async with self._connected(stop) as client:
                    if client is None:
                        return
                    self._life = Life(self._app, tasks, options, client, identity=self._identity, stop=stop, once=once)
                    await self._life.run()

    @asynccontextmanager
    async def _connected(self, stop: Stopping) -> AsyncIterator[Client | None]:
        """A client of a database that has the schema; None if the worker was stopped before the server answered."""
        client, is_ready = self.create_utils(), False
        try:
            async with stop.limiting(0.0):
                await client.open()
                await AsyncSession(lambda: client.pool, client.schema).run(migrate_for_work(client.schema))
                is_ready = True
            yield client if is_ready else None
        finally:
            await client.close()

    @asynccontextmanager
    async def _lifespans(self, stop: Stopping) -> AsyncIterator[Mapping[Any, Any] | None]:
        """The extensions of open lifespans; None if the worker was stopped before all were open.

        A lifespan that hangs while it opens or closes cannot keep the worker from exiting.
        """
        opened, stack = None, AsyncExitStack()
        try:
            async with stop.limiting(0.0):
                opened = await stack.enter_async_context(self._app.lifespans.open())
            yield opened
        finally:
            async with stop.limiting(_FOR_EVER):
                await stack.aclose()

    def _check_app(self) -> TaskRegistry:
        """The tasks to run. Raises an error for a task that cannot run, and for two schedules with one identifier."""
        tasks = self._chosen_tasks()
        tasks.check()
        crontabs_from([*self._app.crontabs, *crontabs_from(self._options.crontabs)])
        in_children = [TaskPlace.of(task) for task in tasks.values() if task.running.run_in == "process"]
        if any(place.is_in_the_script for place in in_children):
            from ferryman.worker.running.children.unguarded import refuse_unguarded_script  # noqa: PLC0415 - of few programs

            refuse_unguarded_script()
        return tasks

    def _chosen_tasks(self) -> TaskRegistry:
        """The tasks of the application, or those that the options name; `UnknownTaskError` for an unknown name."""
        everything, options = self._app.registry, self._options
        if options.tasks is None and not options.not_tasks:
            return everything
        chosen = everything.only(options.tasks, without=options.not_tasks)
        if not chosen:
            raise ConfigurationError(
                "tasks and not_tasks leave no task for this worker. Name others, or fewer in not_tasks."
            )
        return chosen
