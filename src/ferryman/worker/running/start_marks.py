"""Records in the database that a job starts, where a crash would otherwise be misjudged.

When a worker dies, a job that has crashed before must be known to have started or not. In a worker with a local queue,
which holds jobs that it has not started, the same holds for a job whose task says `on_crash="fail"` or `"retry"`, and
for one that was on the worker's list of unstarted jobs. So these start only after their mark is written. Jobs that
start at the same moment share a statement; other jobs have no mark.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ferryman.database.retrying import Retrying
from ferryman.errors import FerrymanError
from ferryman.queries.attempt import mark_started
from ferryman.recovery.policies import must_be_marked
from ferryman.worker.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Container

    from ferryman.database.timed import TimedDatabase
    from ferryman.retries import OnCrash
    from ferryman.tasks import Task
    from ferryman.worker.claiming.claims import Claim

logger = logging.getLogger("ferryman.worker")

SECONDS_UNTIL_HELD_ROWS_ARE_FREE = 0.2
"""When to try again to mark a job whose row another session has locked."""


class StartMarks:
    """Writes start marks: records that a claimed job is about to run. A job that needs one starts only after it.

    default: the policy of tasks that have none; None if the worker starts all that it claims
    listed: the claims on the worker's list of unstarted jobs, which sweepers read
    """

    def __init__(self, database: TimedDatabase, default: OnCrash | None, *, listed: Container[Claim] = ()) -> None:
        self._database = database
        self._default = default
        self._listed = listed
        self._waiting: dict[Claim, asyncio.Future[bool]] = {}
        self._alarm = Alarm()
        self._writing: asyncio.Task[None] | None = None
        self._retrying = Retrying("marking the start of jobs", logger=logger)

    def are_needed(self, task: Task[..., Any], claim: Claim) -> bool:
        """True if this job's start must be recorded in the database before its handler is called."""
        if claim.crash_flags:
            return True
        if self._default is None:
            return False
        return must_be_marked(task.running.on_crash, self._default) or claim in self._listed

    async def mark(self, claim: Claim) -> bool:
        """Record that a job starts. True if it may start; False if this worker has lost it."""
        may_start: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[claim] = may_start
        self._alarm.ring()
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="mark starts")
        return await may_start

    async def _write(self) -> None:
        try:
            # All that became free in the same moment go together.
            await asyncio.sleep(0)
            while self._waiting:
                self._alarm.clear()
                group, self._waiting = self._waiting, {}
                try:
                    for worker_id in {claim.worker_id for claim in group}:
                        await self._write_group(worker_id, group)
                except Exception as error:  # noqa: BLE001 - passed to all that wait
                    for future in group.values():
                        if not future.done():
                            future.set_exception(error)
                if self._waiting:
                    await self._alarm.wait(SECONDS_UNTIL_HELD_ROWS_ARE_FREE)
        finally:
            self._writing = None

    async def _write_group(self, worker_id: str, group: dict[Claim, asyncio.Future[bool]]) -> None:
        wanted = {claim: future for claim, future in group.items() if claim.worker_id == worker_id}
        while wanted := {claim: future for claim, future in wanted.items() if not future.done()}:
            claims = [(claim.job_id, claim.token) for claim in wanted]
            try:
                rows = await self._database.fetch(mark_started(worker_id, claims))
            except FerrymanError as error:
                await asyncio.sleep(self._retrying.pause_after(error))
                continue
            self._retrying.is_over()
            busy = {(job_id, token): is_busy for job_id, token, is_busy in rows}
            for claim, future in wanted.items():
                if future.done():
                    continue
                # Compared by claim, not by job: if a job was lost and claimed again, its old claim must not start.
                if busy.get((claim.job_id, claim.token)):
                    self._waiting[claim] = future  # another session has locked its row
                else:
                    future.set_result((claim.job_id, claim.token) in busy)
            return
