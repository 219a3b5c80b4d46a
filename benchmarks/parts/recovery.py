"""Recovery: seconds from SIGKILL of a `ferryman worker` with all defaults to the second start of its job.

Each trial has a database of its own and two workers, and the one that runs the job is killed at a random moment. The
trials go on at once: this is a time spent waiting, not working. Ferryman only. `python -m benchmarks.recovery_time`
makes more trials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.products import FERRYMAN
from benchmarks.recovery_time import run_trials
from benchmarks.results import Part

if TYPE_CHECKING:
    from benchmarks.bench import Bench

SCENARIO = "SIGKILL to second start, default settings"
TRIALS, QUICK_TRIALS = 5, 1


def measure(bench: Bench) -> Part:
    part = Part("recovery")
    if FERRYMAN in bench.products:
        trials = QUICK_TRIALS if bench.quick else TRIALS
        waits = run_trials(bench.server.url, trials, at_once=trials)
        part.of(SCENARIO, FERRYMAN.name, "s").values.extend(waits)
    return part
