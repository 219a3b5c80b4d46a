"""Speed, guarded as a ratio within one run. Absolute times say nothing on a shared machine, and are never asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.bench import Bench
from benchmarks.parts.drain import drain
from benchmarks.parts.latency import at_percentile
from benchmarks.products import BATCHED, FERRYMAN, RAW
from benchmarks.results import Part, Series
from benchmarks.server import Server
from rich.console import Console

from ferryman.embedded import EmbeddedPostgres
from tests.support.own_servers import copy_made_server
from tests.support.server import quick_place, reachable_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
JOBS = 10_000
ROUNDS = 3
MOST_CLIENT_TIME = 4.5
"""Processor time of our process for a job, in units of what the bare statements cost the server: 2.2 to 2.6 when
this was written, and 6.5 to 7.5 when made three times as dear."""
MOST_SERVER_TIME = 3.5
"""Processor time of the server for a job of ours, in the same units: 1.6 to 1.9 when this was written."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    """On a server of its own: what others do on a shared one would be counted too."""
    settings = {"fsync": "off", "autovacuum": "off"}
    with reachable_folder(quick_place()) as folder:
        made = copy_made_server(folder / "postgres")
        with EmbeddedPostgres(made, settings=settings, linger=timedelta()) as server:
            pid = int((made / "data" / "postmaster.pid").read_text().split()[0])
            yield Bench(Server(server.tcp_dsn, pid), [RAW, FERRYMAN], ROUNDS, JOBS, True, Console(quiet=True))


@pytest.mark.realtime
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor time is read from /proc")
def test_a_job_costs_little_more_processor_time_than_the_bare_statements(bench: Bench) -> None:
    ours, raw = Series("", FERRYMAN.name, "jobs/s"), Series("", RAW.name, "jobs/s")
    for _ in range(ROUNDS):
        drain(bench, RAW, BATCHED, processes=1, jobs=JOBS, into=raw)
        drain(bench, FERRYMAN, BATCHED, processes=1, jobs=JOBS, into=ours)
    # The least of all rounds: noise only ever adds.
    unit = min(raw.facts["server_us"])
    assert min(ours.facts["client_us"]) / unit < MOST_CLIENT_TIME
    assert min(ours.facts["server_us"]) / unit < MOST_SERVER_TIME


def test_the_benchmark_runs_from_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "drain", "--jobs", "1000"]
    done = subprocess.run([*command, "--results", tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ferryman" in done.stdout
    part = json.loads((tmp_path / "drain.json").read_text())
    assert {one["contender"] for one in part["series"]} == {FERRYMAN.name, RAW.name}
    assert part["skipped"] == {}


def test_a_series_knows_how_many_times_as_good_it_is() -> None:
    fast, slow = Series("s", "a", "jobs/s", [300.0, 200.0, 100.0]), Series("s", "b", "jobs/s", [100.0])
    assert fast.times(slow) == 2.0
    short, long = Series("s", "a", "ms", [5.0]), Series("s", "b", "ms", [20.0])
    assert short.times(long) == 4.0


def test_figures_survive_being_kept(tmp_path: Path) -> None:
    part = Part("drain", about={"rounds": 1})
    series = part.of("s", "a", "jobs/s")
    series.values.append(1.5)
    series.note(jobs=10)
    part.save(tmp_path)
    assert Part.load(tmp_path, "drain") == part
    assert Part.load(tmp_path, "latency") is None


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [at_percentile(values, each) for each in (50, 95, 99)] == [50.0, 95.0, 99.0]
    assert at_percentile([7.0], 99) == 7.0
