"""A soak: what a worker needs does not grow with its jobs.

Short, 5,000 jobs: enough to see what one job in a hundred leaves behind. With FERRYMAN_PROOF=1, 20,000. Longer:
`python -m benchmarks.soak --minutes 60`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.soak import MARGINS, Look, leaks

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
JOBS = 20_000 if os.environ.get("FERRYMAN_PROOF") else 5_000

pytestmark = pytest.mark.timeout(900)


@pytest.mark.slow
@pytest.mark.program
def test_after_thousands_of_jobs_a_worker_needs_no_more_memory_files_or_connections(
    server: EmbeddedPostgres,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", "--jobs", str(JOBS), "--database-url", server.dsn],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.splitlines()[-1] == f"NOTHING HAS GROWN in {JOBS:,} jobs"


STEADY = [Look(jobs=number, memory=100_000_000, tasks=9, threads=9, files=20, connections=4) for number in range(30)]


def test_a_soak_in_which_nothing_grows_is_well() -> None:
    assert leaks(STEADY) == []


@pytest.mark.parametrize("need", MARGINS)
def test_a_soak_finds_whatever_grows_with_the_jobs(need: str) -> None:
    grown = [replace(look, **{need: int(getattr(look, need) * (1 + look.jobs / 5))}) for look in STEADY]
    assert [found.split()[0] for found in leaks(grown)] == [need]
