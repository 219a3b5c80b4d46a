"""Measures the server alone, adding, draining, and how soon an idle worker starts a job."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ferryman import App, Worker
from ferryman.cli.bench.bench_schema import bench_statement, fetch
from ferryman.cli.bench.figures import BATCH, Drain, Figures, Machine, Rate, Times
from ferryman.database.statements import Style
from ferryman.database.steps import Call
from ferryman.errors import FerrymanError
from ferryman.hooks import HookRegistry, WorkerShutdown, WorkerStart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from ferryman import Client
    from ferryman.cli.bench.bench_schema import BenchSchema
    from ferryman.cli.bench.figures import BenchSetup
    from ferryman.database.statements import Statement

QUERIES_PER_ROUND = 100
COMMITS_PER_ROUND = 50
CALLS_PER_ROUND = 100
FEWEST_CALLS = 5
CALL_SECONDS = 5.0
"""The time for calls in each round. A worker that cannot listen takes seconds for each call."""
WARM_UP = 3
IDLE_SECONDS = 0.005
"""The pause after which a worker is idle again."""
STALL_SECONDS = 30.0
"""How long a run waits for the end of a job."""


class StalledError(FerrymanError):
    """The run of the bench stalled: there were jobs, but none has ended for a long time."""


@dataclass(frozen=True, slots=True)
class _DrainTime:
    """The times that one drain took, from the worker's start until every job was settled."""

    jobs: int
    seconds: float
    cpu_seconds: float


class BenchRun:
    """One run of the bench. show: called with a line of text before each part"""

    def __init__(self, schema: BenchSchema, setup: BenchSetup, show: Callable[[str], None]) -> None:
        self._schema = schema
        self._setup = setup
        self._show = show
        self._jobs = BenchJobs(schema, job_ms=setup.job_ms)
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._drain_times: dict[bool, list[_DrainTime]] = defaultdict(list)
        self._queries: list[float] = []
        self._commits: list[float] = []
        self._calls: list[float] = []

    async def measure(self) -> Figures:
        """Measure everything. The schema must exist and be empty."""
        setup = self._setup
        async with self._jobs.app.client(max_connections=setup.max_connections) as client:
            await client.migrate()
            await fetch(client, Call(bench_statement("make_probe")))
            for number in range(1, setup.rounds + 1):
                await self._round(client, f"Round {number} of {setup.rounds}")
        return Figures(
            setup=setup,
            server=self._schema.server,
            machine=Machine(_processors(), type(asyncio.get_running_loop()).__module__),
            round_trip=Times.of(self._queries),
            commit=Times.of(self._commits),
            add_one=Rate.of(self._rates["one"]),
            add_bulk=Rate.of(self._rates["bulk"]),
            direct=_drain_of(self._drain_times[False]),
            local_queue=_drain_of(self._drain_times[True]) if setup.queue_size else None,
            latency=Times.of(self._calls),
        )

    async def _round(self, client: Client, name: str) -> None:
        setup = self._setup
        self._show(f"{name}: round trips and commits of the server alone")
        self._queries += await _seconds_of(client, bench_statement("select_one"), QUERIES_PER_ROUND)
        self._commits += await _seconds_of(client, bench_statement("insert_probe"), COMMITS_PER_ROUND)
        self._show(f"{name}: adding {setup.one_by_one:,} jobs one by one, {setup.jobs - setup.one_by_one:,} in bulk")
        await self._add_one_by_one(client, setup.one_by_one)
        await self._add_in_bulk(client, setup.jobs - setup.one_by_one)
        self._show(f"{name}: draining them, {setup.concurrency} at once")
        await self._drain(client, has_local_queue=False)
        if setup.queue_size:
            self._show(f"{name}: the same again, with a local queue of {setup.queue_size:,}")
            await self._add_in_bulk(client, setup.jobs, is_measured=False)
            await self._drain(client, has_local_queue=True)
        self._show(f"{name}: single jobs for an idle worker")
        await self._call_idle_worker(client)

    async def _add_one_by_one(self, client: Client, number: int) -> None:
        started = time.perf_counter()
        for each in range(number):
            await client.add_job(self._jobs.work.job(number=each))
        self._rates["one"].append(number / (time.perf_counter() - started))

    async def _add_in_bulk(self, client: Client, number: int, *, is_measured: bool = True) -> None:
        started = time.perf_counter()
        for first in range(0, number, BATCH):
            numbers = range(first, min(first + BATCH, number))
            await client.add_jobs([self._jobs.work.job(number=each) for each in numbers])
        if is_measured:
            self._rates["bulk"].append(number / (time.perf_counter() - started))

    async def _drain(self, client: Client, *, has_local_queue: bool) -> None:
        self._jobs.expect(self._setup.jobs)
        clocks: list[tuple[float, float]] = []
        async with self._worker(clocks, has_local_queue=has_local_queue):
            await self._jobs.all_ended()
        left = (await client.counts()).total
        if left:
            raise StalledError(
                f"all jobs ran, but {left:,} of them were not settled when the worker had stopped, so there is no "
                f"result. Run it again; if this happens again, see `ferryman doctor`."
            )
        (began, cpu_began), (ended, cpu_ended) = clocks
        self._drain_times[has_local_queue].append(_DrainTime(self._setup.jobs, ended - began, cpu_ended - cpu_began))

    async def _call_idle_worker(self, client: Client) -> None:
        started = time.perf_counter()
        async with self._worker([], has_local_queue=False):
            for _ in range(WARM_UP):
                await self._call(client)
            for number in range(CALLS_PER_ROUND):
                if number >= FEWEST_CALLS and time.perf_counter() - started > CALL_SECONDS:
                    break
                self._calls.append(await self._call(client))

    async def _call(self, client: Client) -> float:
        await asyncio.sleep(IDLE_SECONDS)
        self._jobs.expect(1)
        called_at = time.perf_counter()
        await client.add_job(self._jobs.call.job(number=0))
        await self._jobs.all_ended()
        return self._jobs.started_at - called_at

    @asynccontextmanager
    async def _worker(self, clocks: list[tuple[float, float]], *, has_local_queue: bool) -> AsyncIterator[None]:
        """Run a worker within the block. clocks: gets the clocks at its start, and when it has settled every job"""
        hooks, is_ready = HookRegistry(), asyncio.Event()

        def note(_: object) -> None:
            clocks.append((time.perf_counter(), time.process_time()))
            is_ready.set()

        hooks.on(WorkerStart, note)
        hooks.on(WorkerShutdown, note)
        worker = Worker(self._jobs.app, self._setup.options(hooks, has_local_queue=has_local_queue))
        running = asyncio.create_task(worker.run(), name="worker of the bench")
        waiting = asyncio.create_task(is_ready.wait(), name="start of the worker")
        try:
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                yield
            worker.request_shutdown()
            await running
        finally:
            for task in (running, waiting):
                task.cancel()
            await asyncio.gather(running, waiting, return_exceptions=True)


async def _seconds_of(client: Client, statement: Statement, number: int) -> list[float]:
    """Time one statement after another on one connection, without any other code of Ferryman."""
    text, taken = statement.text(client.schema, Style.NUMBERED), []
    async with client.pool.connection() as connection:
        for each in range(-WARM_UP, number):
            started = time.perf_counter()
            await connection.fetch(text, statement.ordered({"number": each}))
            if each >= 0:
                taken.append(time.perf_counter() - started)
    return taken


def _drain_of(drain_times: Sequence[_DrainTime]) -> Drain:
    return Drain(
        Rate.of([each.jobs / each.seconds for each in drain_times]),
        cpu_us=median(each.cpu_seconds / each.jobs for each in drain_times) * 1_000_000,
        cpu_share=median(each.cpu_seconds / each.seconds for each in drain_times),
    )


def _processors() -> int:
    """Return the number of processors that this process may use; in a container there may be more."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class BenchJobs:
    """The application of a run and its two tasks, and a count of the jobs that have ended.

    `work` jobs wait for `job_ms`; `call` jobs note when they start. The handlers do next to nothing, so that the run
    measures Ferryman.
    """

    def __init__(self, schema: BenchSchema, *, job_ms: float) -> None:
        self.app = App(schema.database_url, schema=schema.name)
        self.started_at = 0.0
        self._patience = STALL_SECONDS + job_ms / 1000
        self._goal = self._ended = 0
        self._is_reached = asyncio.Event()
        seconds = job_ms / 1000

        async def work(number: int) -> None:  # noqa: ARG001 - a payload like any other
            if seconds:
                await asyncio.sleep(seconds)
            self._count()

        async def call(number: int) -> None:  # noqa: ARG001 - a payload like any other
            self.started_at = time.perf_counter()
            self._count()

        self.work = self.app.task(identifier="bench_work")(work)
        self.call = self.app.task(identifier="bench_call")(call)

    def expect(self, goal: int) -> None:
        """Start to count jobs, up to `goal`."""
        self._goal, self._ended = goal, 0
        self._is_reached.clear()

    async def all_ended(self) -> None:
        """Wait until all jobs have ended. Raise `StalledError` if none ends for long: a worker would wait on."""
        while not self._is_reached.is_set():
            before = self._ended
            try:
                async with asyncio.timeout(self._patience):
                    await self._is_reached.wait()
            except TimeoutError:
                if self._ended == before:
                    raise StalledError(
                        f"no job has ended for {self._patience:g} s; {self._ended:,} of {self._goal:,} are done. The "
                        f"run was stopped. Does the server still answer? See `ferryman doctor`."
                    ) from None

    def _count(self) -> None:
        self._ended += 1
        if self._ended == self._goal:
            self._is_reached.set()
