"""Measures how much jobs that kill their workers slow the others down.

    python -m benchmarks.poison --seconds 60

Four `ferryman worker` processes with all defaults work off a long queue, once by themselves and once beside three
poisonous jobs: one ends its process, one crashes it, one is killed as for want of memory. Told are the ratio of jobs
done in the same time, and that each of the three was stopped at its third death.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks.poison_tasks import DEATHS
from ferryman import JobSpec, RawJobSpec, SyncClient
from ferryman.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSES, CONCURRENCY = 4, 10
JOBS_PER_SECOND = 250
"""More than forty slots can do with jobs of 0.2 s, so that there is always more to do."""
GOAL = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="ferryman-poison-") as name:
        Path(name).chmod(0o711)
        with EmbeddedPostgres(Path(name) / "postgres", linger=timedelta()) as server:
            alone, _ = done_in(server, "alone", seconds, poisonous=False)
            beside, stopped = done_in(server, "beside", seconds, poisonous=True)
    ratio = beside / alone
    print(f"{alone} jobs in {seconds:g} s by themselves, {beside} beside {len(DEATHS)} poisonous ones: {ratio:.3f}")
    print(f"{stopped} of {len(DEATHS)} poisonous jobs were stopped at their third death")
    return 0 if ratio >= GOAL and stopped == len(DEATHS) else 1


def done_in(server: EmbeddedPostgres, name: str, seconds: float, *, poisonous: bool) -> tuple[int, int]:
    """Return how many jobs were done in this time, and how many poisonous ones have failed for good."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    dsn = make_conninfo(server.dsn, dbname=name)
    with SyncClient(dsn) as client:
        client.migrate()
        client.add_raw_jobs([RawJobSpec("work", {}) for _ in range(int(seconds * JOBS_PER_SECOND))])
        with workers(dsn):
            while client.counts().running < PROCESSES * CONCURRENCY:
                time.sleep(0.05)
            if poisonous:
                for death in DEATHS:
                    client.add_raw_job("poison", {"death": death}, JobSpec(priority=-1))
            before = client.counts().total
            time.sleep(seconds)
            done = before - client.counts().total
            stopped = client.counts().failed
    return done, stopped


@contextmanager
def workers(dsn: str) -> Iterator[None]:
    command = [sys.executable, "-m", "ferryman", "worker", "benchmarks.poison_tasks:app"]
    options = ["--processes", str(PROCESSES), "--concurrency", str(CONCURRENCY), "--log-level", "error"]
    environment = {**os.environ, "DATABASE_URL": dsn}
    process = subprocess.Popen([*command, *options], env=environment, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
