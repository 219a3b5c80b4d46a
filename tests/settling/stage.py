"""A worker whose jobs are about to end in one way, each beside a neighbour of its own."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from ferryman import App, LocalQueueConfig, WorkerContext
from ferryman.hooks import HookRegistry, JobComplete, JobFail, JobInterrupted, JobPermanentlyFail, SettleRefused
from ferryman.worker.claiming.claimer import Claimer
from tests.settling.endings import COMMITTED, INTERRUPTED_DELAY, INTERRUPTION, RETRY_POLICY, UNSTARTED
from tests.settling.neighbours import NOBODY, SUCCESSOR, Effect
from tests.settling.promises import check, promised
from tests.support.waiting import until, waiting_for_locks
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    import pytest

    from ferryman import Worker
    from ferryman.worker.claiming.claims import Claimed
    from tests.settling.endings import Ending
    from tests.settling.neighbours import Cell
    from tests.support.tables import Row, Tables

MODES = ("direct", "local queue")
EVENTS = (JobComplete, JobFail, JobPermanentlyFail, JobInterrupted, SettleRefused)
MINUTE = timedelta(minutes=1)


class Stage:
    """Jobs of a task `play`, one for each cell, and a worker that runs them."""

    def __init__(self, dsn: str, tables: Tables, ending: Ending, mode: str, cells: Iterable[Cell]) -> None:
        self.app = App(dsn)
        self.tables = tables
        self.ending = ending
        self.cells = [*cells]
        self.jobs: dict[Cell, Row] = {}
        self.begun: set[int] = set()
        self.ended: set[int] = set()
        self._dsn = dsn
        self._is_local = mode == "local queue"
        self._events: dict[int, list[str]] = defaultdict(list)
        self._slot_is_busy = asyncio.Event()
        self._gate = asyncio.Event()
        self._claim_may_return = asyncio.Event()
        self._hooks = HookRegistry()
        self._worker: Worker | None = None
        for kind in EVENTS:
            self._hooks.on(kind, self._note)
        self.app.task(retry=RETRY_POLICY)(self.play)
        self.app.task(self.block)

    async def play(self, ctx: WorkerContext, cell: str) -> None:
        """Wait for the end, then end in the way that is asked for."""
        if self.ending.in_transaction == "rollback":
            await self._complete(ctx)
        self.begun.add(ctx.job.id)
        await self._gate.wait()
        if self.ending.in_transaction == "commit":
            await self._complete(ctx)
        self.ended.add(ctx.job.id)
        if self.ending.error is not None:
            raise self.ending.error()

    async def block(self) -> None:
        """Keep a slot busy."""
        self._slot_is_busy.set()
        await self._gate.wait()

    @property
    def worker(self) -> Worker:
        """Once it was set up."""
        assert self._worker is not None
        return self._worker

    @asynccontextmanager
    async def set_up(self, monkeypatch: pytest.MonkeyPatch, **given: Any) -> AsyncIterator[asyncio.Task[None]]:
        """The worker at work: every cell's job is claimed, and none has ended."""
        # Two transactions that add jobs of the same new task would wait for each other.
        self.tables.query("insert into graphile_worker._private_tasks (identifier) values (%s)", SUCCESSOR)
        if self.ending is UNSTARTED and self._is_local:
            self.tables.add_job("block", priority=-10)
        self._add(self.cells)
        options: dict[str, Any] = {
            "concurrency": len(self.cells),
            "hooks": self._hooks,
            "local_queue": LocalQueueConfig(size=200) if self._is_local else None,
            "shutdown": {"interrupted_job_retry_delay": INTERRUPTED_DELAY, "grace_period": MINUTE},
        }
        if self.ending is INTERRUPTION:
            options["shutdown"]["grace_period"] = timedelta()
        if self.ending is UNSTARTED:
            self._keep_from_starting(options, monkeypatch)
        self._worker = worker_of(self.app, **{**options, **given})
        async with running(self._worker) as life:
            try:
                await self._until_claimed()
                yield life
            finally:
                self.open_gate()
                self._claim_may_return.set()

    async def join(self, cell: Cell) -> None:
        """One more job, which runs beside the others and ends after them."""
        self.cells.append(cell)
        self._add([cell])
        await self._until_claimed()

    def let_end(self) -> None:
        """Let all attempts end."""
        if self.ending.at_shutdown:
            self.worker.request_shutdown()
            self._claim_may_return.set()
        else:
            self.open_gate()

    def open_gate(self) -> None:
        """Let handlers go on."""
        self._gate.set()

    def has_gone_on(self) -> bool:
        """Whether those without a neighbour are settled: the others ended before them, or with them."""
        return not any(cell.neighbour is NOBODY for cell in self.locked())

    def waits(self) -> bool:
        """Whether the statement that settles waits for a neighbour. Handlers with transactions wait one by one."""
        held = sum(cell.neighbour.holds for cell in self.cells) if self.ending is COMMITTED else 1
        return waiting_for_locks(self.tables.connection) >= held

    def locked(self) -> set[Cell]:
        """Those whose jobs belong to a worker."""
        rows = self.tables.query("select id from graphile_worker._private_jobs where locked_by is not null")
        ids = {row["id"] for row in rows}
        return {cell for cell, job in self.jobs.items() if job["id"] in ids}

    async def until_over(self) -> None:
        """Come back when the worker has said something about every job, and has written what it said."""
        await until(self._is_over, "all jobs are settled, or refused")

    def check(self, *exceptions: Cell) -> None:
        """Fail unless every job is left as it was promised, and nothing is locked, with these exceptions."""
        wanted = {cell: promised(self.ending, cell) for cell in self.cells if cell not in exceptions}
        check(self.tables, self.jobs, wanted, events=self._events, may_be_locked=[cell.name for cell in exceptions])

    def _add(self, cells: Iterable[Cell]) -> None:
        specs = [
            {"identifier": "play", "payload": {"cell": cell.name}, "job_key": cell.name, "queue_name": cell.queue}
            for cell in cells
        ]
        self.jobs |= dict(zip(cells, self.tables.add_jobs(*specs), strict=True))

    async def _until_claimed(self) -> None:
        await until(lambda: len(self.locked()) == len(self.cells), "the jobs are claimed")
        if self.ending is not UNSTARTED:
            await until(lambda: len(self.begun) == len(self.cells), "the jobs run")
        elif self._is_local:
            await until(self._slot_is_busy.is_set, "the only slot is busy")

    def _keep_from_starting(self, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep the only slot busy; or without a local queue, hold up the reply of the claim."""
        if self._is_local:
            options["concurrency"] = 1
            return
        claim = Claimer.claim

        async def claim_and_wait(claimer: Claimer, *args: Any, **given: Any) -> Claimed:
            claimed = await claim(claimer, *args, **given)
            if claimed.claims:
                await self._claim_may_return.wait()
            return claimed

        monkeypatch.setattr(Claimer, "claim", claim_and_wait)

    async def _complete(self, ctx: WorkerContext) -> None:
        """Complete the job in a transaction, which is undone if the handler is about to fail."""
        async with await psycopg.AsyncConnection.connect(self._dsn) as mine:
            await ctx.complete_in(mine)
            if self.ending.in_transaction == "rollback":
                await mine.rollback()

    def _note(self, event: Any) -> None:
        job_id = event.job_id if isinstance(event, SettleRefused) else event.job.id
        self._events[job_id].append(type(event).__name__)

    def _is_over(self) -> bool:
        locked = self.locked()
        return all(self._is_over_with(cell, is_locked=cell in locked) for cell in self.cells)

    def _is_over_with(self, cell: Cell, *, is_locked: bool) -> bool:
        events = self._events[self.jobs[cell]["id"]]
        says_something = bool(self.ending.events) or cell.effect is Effect.TAKEN
        return "SettleRefused" in events or (not is_locked and (bool(events) or not says_something))
