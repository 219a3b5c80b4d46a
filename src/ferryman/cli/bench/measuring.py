"""Measures: the server alone, adding, draining, and how soon an idle worker starts a job."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ferryman import Worker
from ferryman.cli.bench.course import Course, StalledError
from ferryman.cli.bench.figures import Drain, Figures, Machine, Rate, Times
from ferryman.cli.bench.ground import bench_statement, fetch
from ferryman.cli.bench.setup import BATCH
from ferryman.database.statements import Style
from ferryman.database.steps import Call
from ferryman.hooks import HookRegistry, WorkerShutdown, WorkerStart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from ferryman import Client
    from ferryman.cli.bench.ground import Ground
    from ferryman.cli.bench.setup import Setup
    from ferryman.database.statements import Statement

QUESTIONS_PER_ROUND = 100
COMMITS_PER_ROUND = 50
CALLS_PER_ROUND = 100
FEWEST_CALLS = 5
SECONDS_FOR_CALLS = 5.0
"""In each round. A worker that cannot listen takes seconds for each."""
WARM_UP = 3
SECONDS_TO_FALL_IDLE = 0.005


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What one drain took, from the worker's start until all was settled."""

    jobs: int
    seconds: float
    cpu_seconds: float


class Measuring:
    """One run. tell: called with a line before each part, for those who wait."""

    def __init__(self, ground: Ground, setup: Setup, tell: Callable[[str], None]) -> None:
        self._ground = ground
        self._setup = setup
        self._tell = tell
        self._course = Course(ground, job_ms=setup.job_ms)
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._stretches: dict[bool, list[_Stretch]] = defaultdict(list)
        self._questions: list[float] = []
        self._commits: list[float] = []
        self._calls: list[float] = []

    async def run(self) -> Figures:
        """Measure everything, in a schema that is there and empty."""
        setup = self._setup
        async with self._course.app.client(max_connections=setup.max_connections) as client:
            await client.migrate()
            await fetch(client, Call(bench_statement("make_probe")))
            for number in range(1, setup.rounds + 1):
                await self._round(client, f"Round {number} of {setup.rounds}")
        return Figures(
            setup=setup,
            server=self._ground.server,
            machine=Machine(_processors(), type(asyncio.get_running_loop()).__module__),
            round_trip=Times.of(self._questions),
            commit=Times.of(self._commits),
            add_one=Rate.of(self._rates["one"]),
            add_bulk=Rate.of(self._rates["bulk"]),
            direct=_drain_of(self._stretches[False]),
            local_queue=_drain_of(self._stretches[True]) if setup.queue_size else None,
            latency=Times.of(self._calls),
        )

    async def _round(self, client: Client, name: str) -> None:
        setup = self._setup
        self._tell(f"{name}: round trips and commits of the server alone")
        self._questions += await _seconds_of(client, bench_statement("select_one"), QUESTIONS_PER_ROUND)
        self._commits += await _seconds_of(client, bench_statement("insert_probe"), COMMITS_PER_ROUND)
        self._tell(f"{name}: adding {setup.one_by_one:,} jobs one by one, {setup.jobs - setup.one_by_one:,} in bulk")
        await self._add_one_by_one(client, setup.one_by_one)
        await self._add_in_bulk(client, setup.jobs - setup.one_by_one)
        self._tell(f"{name}: draining them, {setup.concurrency} at once")
        await self._drain(client, has_local_queue=False)
        if setup.queue_size:
            self._tell(f"{name}: the same again, with a local queue of {setup.queue_size:,}")
            await self._add_in_bulk(client, setup.jobs, is_measured=False)
            await self._drain(client, has_local_queue=True)
        self._tell(f"{name}: single jobs for an idle worker")
        await self._call_idle_worker(client)

    async def _add_one_by_one(self, client: Client, number: int) -> None:
        begun = time.perf_counter()
        for each in range(number):
            await client.add_job(self._course.work.job(number=each))
        self._rates["one"].append(number / (time.perf_counter() - begun))

    async def _add_in_bulk(self, client: Client, number: int, *, is_measured: bool = True) -> None:
        begun = time.perf_counter()
        for first in range(0, number, BATCH):
            numbers = range(first, min(first + BATCH, number))
            await client.add_jobs([self._course.work.job(number=each) for each in numbers])
        if is_measured:
            self._rates["bulk"].append(number / (time.perf_counter() - begun))

    async def _drain(self, client: Client, *, has_local_queue: bool) -> None:
        self._course.begin(self._setup.jobs)
        clocks: list[tuple[float, float]] = []
        async with self._worker(clocks, has_local_queue=has_local_queue):
            await self._course.end()
        left = (await client.counts()).total
        if left:
            raise StalledError(f"all jobs ran, but {left:,} of them were not settled when the worker had ended")
        (began, cpu_began), (ended, cpu_ended) = clocks
        self._stretches[has_local_queue].append(_Stretch(self._setup.jobs, ended - began, cpu_ended - cpu_began))

    async def _call_idle_worker(self, client: Client) -> None:
        begun = time.perf_counter()
        async with self._worker([], has_local_queue=False):
            for _ in range(WARM_UP):
                await self._call(client)
            for number in range(CALLS_PER_ROUND):
                if number >= FEWEST_CALLS and time.perf_counter() - begun > SECONDS_FOR_CALLS:
                    break
                self._calls.append(await self._call(client))

    async def _call(self, client: Client) -> float:
        await asyncio.sleep(SECONDS_TO_FALL_IDLE)
        self._course.begin(1)
        called_at = time.perf_counter()
        await client.add_job(self._course.call.job(number=0))
        await self._course.end()
        return self._course.started_at - called_at

    @asynccontextmanager
    async def _worker(self, clocks: list[tuple[float, float]], *, has_local_queue: bool) -> AsyncIterator[None]:
        """A worker that runs for as long as the block. clocks: read when it starts, and when it has settled all."""
        hooks, is_ready = HookRegistry(), asyncio.Event()

        def note(_: object) -> None:
            clocks.append((time.perf_counter(), time.process_time()))
            is_ready.set()

        hooks.on(WorkerStart, note)
        hooks.on(WorkerShutdown, note)
        worker = Worker(self._course.app, self._setup.options(hooks, has_local_queue=has_local_queue))
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
    """One statement after the other on one connection, without anything of ours around it."""
    text, taken = statement.text(client.schema, Style.NUMBERED), []
    async with client.pool.connection() as connection:
        for each in range(-WARM_UP, number):
            begun = time.perf_counter()
            await connection.fetch(text, statement.ordered({"number": each}))
            if each >= 0:
                taken.append(time.perf_counter() - begun)
    return taken


def _drain_of(stretches: Sequence[_Stretch]) -> Drain:
    return Drain(
        Rate.of([each.jobs / each.seconds for each in stretches]),
        cpu_us=median(each.cpu_seconds / each.jobs for each in stretches) * 1_000_000,
        cpu_share=median(each.cpu_seconds / each.seconds for each in stretches),
    )


def _processors() -> int:
    """Those that this process may use, which in a container may be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
