"""Runs one worker for hours and watches what it needs, to find leaks: `python -m benchmarks.soak --minutes 60`.

Jobs of several kinds run without a pause. Memory, tasks of the loop, threads, open files and connections are looked at
again and again. What the last third of the time needed is compared with what the second third needed; the first one is
for warming up. Whoever grows has a leak, and the exit code says so.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import threading
import time
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from benchmarks.kill.__main__ import fresh_database, private_server
from ferryman import App, Client, JobSpec, RawJobSpec, Worker, WorkerRecoveryConfig
from ferryman.retries import FixedDelay
from ferryman.worker import LocalQueueConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

JOBS_PER_ROUND = 500
KINDS = ("on_the_loop", "in_a_thread", "failing_once")
MOST_GROWTH = {"memory": 1.15, "tasks": 1.0, "threads": 1.0, "files": 1.0, "connections": 1.0}
"""How much larger than before each need may be, as a factor; and then by so much more:"""
MARGINS = {"memory": 10_000_000, "tasks": 4, "threads": 4, "files": 4, "connections": 3}
LEAST_LOOKS = 9


@dataclass(frozen=True, slots=True)
class Look:
    """What the process used at one moment: memory, tasks, threads, files, connections."""

    jobs: int
    memory: int
    tasks: int
    threads: int
    files: int
    connections: int


class Soak:
    """A worker, and jobs for it in rounds."""

    def __init__(self, dsn: str) -> None:
        self.looks: list[Look] = []
        self._dsn = dsn
        self._done = 0
        self._failed: set[int] = set()
        self._app = App(dsn)
        self._app.task(identifier="on_the_loop")(self._work)
        self._app.task(identifier="in_a_thread")(self._work_in_thread)
        self._app.task(identifier="failing_once", retry=FixedDelay(0.0))(self._fail_once)

    async def run(self, *, jobs: int | None, seconds: float | None) -> None:
        """Run jobs for this many seconds, or until this many are done."""
        ends_at = None if seconds is None else time.monotonic() + seconds
        async with Client(self._dsn) as client, self._worker():
            with psycopg.connect(self._dsn, autocommit=True) as observer:
                while (jobs is None or self._done < jobs) and (ends_at is None or time.monotonic() < ends_at):
                    await self._round(client)
                    self.looks.append(self._look(observer))

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[None]:
        worker = Worker(
            self._app,
            concurrency=8,
            local_queue=LocalQueueConfig(size=50),
            recovery=WorkerRecoveryConfig(enabled=True, heartbeat_interval=timedelta(seconds=1)),
            listen_os_shutdown_signals=False,
        )
        life = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.request_shutdown()
            await life

    async def _round(self, client: Client) -> None:
        numbers = range(self._done, self._done + JOBS_PER_ROUND)
        specs = [RawJobSpec(KINDS[number % 3], {"number": number}, _spec(number)) for number in numbers]
        await client.add_raw_jobs(specs)
        while (await client.counts()).total:  # noqa: ASYNC110 - what counts is what the database says
            await asyncio.sleep(0.02)
        self._done += JOBS_PER_ROUND

    def _look(self, observer: psycopg.Connection) -> Look:
        gc.collect()
        own = "select count(*) from pg_stat_activity where datname = current_database()"
        row = observer.execute(own).fetchone()
        return Look(
            jobs=self._done,
            memory=_memory(),
            tasks=len(asyncio.all_tasks()),
            threads=threading.active_count(),
            files=len([*Path("/proc/self/fd").iterdir()]),
            connections=0 if row is None else int(row[0]),
        )

    async def _work(self, number: int) -> None:
        """Run a job that does nothing, on the event loop."""

    def _work_in_thread(self, number: int) -> None:
        """Run a job that does nothing, in a thread."""

    async def _fail_once(self, number: int) -> None:
        if number % 30 == 2 and number not in self._failed:
            self._failed.add(number)
            raise ValueError("x" * 1000)
        self._failed.discard(number)


def _spec(number: int) -> JobSpec:
    queue = f"queue {number % 5}" if number % 4 == 0 else None
    return JobSpec(queue_name=queue, job_key=f"key {number}" if number % 7 == 0 else None)


def _memory() -> int:
    """Return the bytes that the process has in memory."""
    resident = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(resident.split()[1]) * 1024


def leaks(looks: Sequence[Look]) -> list[str]:
    """Return what has grown from the second third of the run to the last one, by more than chance."""
    if len(looks) < LEAST_LOOKS:
        return [f"only {len(looks)} looks: too few to tell"]
    third = len(looks) // 3
    found = []
    for need, factor in MOST_GROWTH.items():
        earlier = statistics.median(getattr(look, need) for look in looks[third : 2 * third])
        later = statistics.median(getattr(look, need) for look in looks[2 * third :])
        if later > earlier * factor + MARGINS[need]:
            found.append(f"{need} grew from {earlier:,.0f} to {later:,.0f}")
    return found


def main() -> int:
    options = _options()
    with ExitStack() as stack:
        dsn = options.database_url or stack.enter_context(private_server())
        soak = Soak(stack.enter_context(fresh_database(dsn, "ferryman_soak")))
        seconds = None if options.minutes is None else options.minutes * 60
        asyncio.run(soak.run(jobs=options.jobs, seconds=seconds))
    found = leaks(soak.looks)
    every = max(1, len(soak.looks) // 20)
    for look in soak.looks[::every]:
        print(json.dumps(asdict(look)))
    print("\n".join(found) or f"NOTHING HAS GROWN in {soak.looks[-1].jobs:,} jobs")
    return 1 if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Let a worker work for long, and look whether it needs more and more.")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float, help="how long")
    length.add_argument("--jobs", type=int, help="how many jobs, instead of how long")
    parser.add_argument(
        "--database-url", help="a server to use instead of a private one; a database is made there, and dropped"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
