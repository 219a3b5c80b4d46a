"""Measures how long a killed worker's job waits for its next run: `python -m benchmarks.recovery_time --trials 100`.

Each trial has a database of its own and two real `ferryman worker` processes, with all defaults. One of them, which may
or may not be the one that watches the other, runs a job and is killed with SIGKILL at a random moment. The time goes
from the kill to the moment at which the job has begun to run in the other. Several trials go on at once.

With `--pooler`, PgBouncer in transaction mode stands between, where no session tells that a worker lives. There, the
application asks for quicker settings, and the bound is their sum.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

import ferryman
from benchmarks.kill.__main__ import fresh_database, private_server
from benchmarks.kill.holding import INTERVAL_SECONDS, QUICK, THRESHOLD_SECONDS
from benchmarks.kill.recorder import FOLDER
from ferryman import SyncClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.history import Line

BOUND_SECONDS = 15.0
AT_ONCE = 8
WORKERS = 2
KILLED_WITHIN_SECONDS = 10.0
"""Long enough for every moment between two looks at each other."""
PATIENCE_SECONDS = 120.0
WIDTH = 50


@dataclass(frozen=True, slots=True)
class Place:
    """The database and folder of a trial. Its workers may go through a pooler; the benchmark itself never does."""

    dsn: str
    worker_dsn: str
    folder: Path
    is_quick: bool

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker as a user would."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FERRYMAN_")}
        quick = {QUICK: "1"} if self.is_quick else {}
        with (self.folder / "workers.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "ferryman", "worker", "benchmarks.kill.holding:app"],
                env={**kept, "DATABASE_URL": self.worker_dsn, FOLDER: str(self.folder), **quick},
                stdout=log,
                stderr=log,
            )

    def starts(self) -> list[Line]:
        """Return the runs of the job so far, in order."""
        path = self.folder / "history.jsonl"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return sorted(map(json.loads, lines), key=lambda line: int(line["at"]))

    def registered(self) -> int:
        """Return the number of registered workers."""
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("select count(*) from graphile_worker._private_workers").fetchone()
        assert row is not None
        return int(row[0])


def run_trial(place: Place, seconds_until_kill: float) -> float:
    """Kill the worker that runs the job, and return the seconds until the other one runs it."""
    workers = [place.start_worker() for _ in range(WORKERS)]
    try:
        _until(lambda: place.registered() == WORKERS, "both workers are there")
        with SyncClient(place.dsn) as client:
            client.add_raw_job("hold", {"number": 1})
        _until(lambda: len(place.starts()) == 1, "the job runs")
        [first] = place.starts()
        victim = next(worker for worker in workers if worker.pid == first["pid"])
        time.sleep(seconds_until_kill)
        killed = time.monotonic_ns()
        victim.send_signal(signal.SIGKILL)
        _until(lambda: len(place.starts()) > 1, "the job runs again")
        return float(place.starts()[1]["at"] - killed) / 1e9
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"never happened: {what}")
        time.sleep(0.05)


def render(name: str, waits: list[float], bound: float) -> str:
    """Return a histogram by seconds, and percentiles."""
    waits = sorted(waits)
    counts = {second: sum(int(wait) == second for wait in waits) for second in range(int(waits[-1]) + 1)}
    scale = max(1.0, max(counts.values()) / WIDTH)
    bars = [
        f"{second:>3} to {second + 1:>2} s  {count:>4}  {'#' * round(count / scale)}"
        for second, count in counts.items()
    ]
    points = (("shortest", 0.0), ("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("longest", 1.0))
    listed = [f"{word:<10} {waits[min(len(waits) - 1, int(len(waits) * part))]:6.2f} s" for word, part in points]
    within = sum(wait <= bound for wait in waits)
    return "\n".join([name, "", *bars, "", *listed, "", f"{within} of {len(waits)} within {bound:g} s", ""])


def run_trials(server: str, trials: int, *, at_once: int, seed: int = 1, pooler: bool = False) -> list[float]:
    """Return the seconds of each trial. The same seed kills at the same moments after the start of a job."""
    dice = random.Random(seed)
    moments = [dice.uniform(0, KILLED_WITHIN_SECONDS) for _ in range(trials)]
    with ThreadPoolExecutor(at_once) as pool:
        started = [
            pool.submit(_trial, server, f"{number} of {trials}", moment, pooler=pooler)
            for number, moment in enumerate(moments, 1)
        ]
        try:
            return [trial.result() for trial in started]
        finally:
            pool.shutdown(cancel_futures=True)


def main() -> int:
    options = _options()
    with ExitStack() as stack:
        server = options.database_url or stack.enter_context(private_server(by_tcp=True))
        waits = run_trials(server, options.trials, at_once=options.at_once, seed=options.seed, pooler=options.pooler)
        with psycopg.connect(server) as connection:
            version = connection.info.parameter_status("server_version")
    bound = THRESHOLD_SECONDS + INTERVAL_SECONDS if options.pooler else BOUND_SECONDS
    kind = f"through PgBouncer, sweep_threshold {THRESHOLD_SECONDS:g} s, sweep_interval {INTERVAL_SECONDS:g} s"
    name = (
        f"Seconds from SIGKILL of a `ferryman worker` to the next run of its job, {options.trials} trials, "
        f"{kind if options.pooler else 'all defaults'}\n"
        f"ferryman {ferryman.__version__}, Python {platform.python_version()}, PostgreSQL {version}, "
        f"seed {options.seed}"
    )
    print(render(name, waits, bound))
    return 0 if max(waits) <= bound else 1


def _trial(server: str, name: str, moment: float, *, pooler: bool) -> float:
    with ExitStack() as stack:
        dsn = stack.enter_context(fresh_database(server, f"trial_{name.split(maxsplit=1)[0]}"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ferryman-proof-")))
        worker_dsn = stack.enter_context(_pooler(dsn)) if pooler else dsn
        wait = run_trial(Place(dsn, worker_dsn, folder, is_quick=pooler), moment)
        print(f"trial {name}: {wait:.2f} s", file=sys.stderr, flush=True)
        return wait


@contextmanager
def _pooler(dsn: str) -> Iterator[str]:
    from tests.support.network import PgBouncer  # noqa: PLC0415 - it needs pytest, and nothing else here does

    with tempfile.TemporaryDirectory(prefix="ferryman-proof-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with PgBouncer(dsn, folder) as pooler:
            yield pooler.dsn


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how soon the jobs of a killed worker run again.")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument(
        "--at-once", type=int, default=AT_ONCE, help=f"trials that share a database (default: {AT_ONCE})"
    )
    parser.add_argument("--pooler", action="store_true", help="through PgBouncer in transaction mode")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database-url", help="a server to use instead of a private one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
