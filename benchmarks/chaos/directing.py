"""Runs neighbours and workers against each other, then lets workers that are left unharmed finish the rest."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from benchmarks.chaos.neighbours import KINDS, Neighbour
from benchmarks.chaos.plan import WORKERS, fleet
from benchmarks.kill.__main__ import read_history
from benchmarks.kill.directing import (
    OWN_NUMBER,
    SECONDS_BETWEEN_LOOKS,
    SECONDS_PER_TURN,
    SECONDS_WITHOUT_PROGRESS,
    drain,
    keep_harming,
    thaw_all,
    thaw_swept,
)
from benchmarks.kill.recorder import Recorder

if TYPE_CHECKING:
    from benchmarks.kill.directing import Stage


def run_chaos(stage: Stage, *, seconds: float, kills: int, seed: int) -> None:
    """Run for `seconds`, and until `kills` workers were killed; then stop everything in order."""
    let_end = _start_neighbours(stage, seed)
    workers = fleet(seed)
    ends_at, next_look = time.monotonic() + seconds, 0.0
    while (time.monotonic() < ends_at or stage.nursery.counts.deaths < kills) and not stage.is_stopped:
        keep_harming(stage.nursery, workers, WORKERS)
        if time.monotonic() >= next_look:
            thaw_swept(stage)
            next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
        time.sleep(SECONDS_PER_TURN)
    os.write(let_end, b".")  # nobody reads it; workers have inherited the pipe, so closing it would end nothing
    thaw_all(stage.nursery)  # neighbours may wait for rows that the frozen hold in transactions of their own
    _await_neighbours(stage)
    drain(stage)
    _write_down_transactions(stage)
    for text in stage.looking.deadlocks():
        stage.recorder.note("deadlock", text=text)


def _start_neighbours(stage: Stage, seed: int) -> int:
    """Fork the neighbours. They end when something is written to the descriptor that is returned."""
    reading, writing = os.pipe()
    for place in range(len(KINDS)):
        pid = os.fork()
        if pid == 0:
            Neighbour(place, seed, stage.dsn, Recorder(stage.folder, OWN_NUMBER), reading).live()
        stage.nursery.others.add(pid)
    return writing


def _await_neighbours(stage: Stage) -> None:
    deadline = time.monotonic() + SECONDS_WITHOUT_PROGRESS
    while stage.nursery.others and time.monotonic() < deadline:
        stage.nursery.reap()
        time.sleep(SECONDS_PER_TURN)
    if stage.nursery.others:
        stage.recorder.note("broken", error=f"{len(stage.nursery.others)} neighbours did not end")


def _write_down_transactions(stage: Stage) -> None:
    """Add to the history whether each transaction was committed."""
    lines = read_history(stage.folder)
    numbers = {line["transaction"] for line in lines if line.get("transaction") is not None}
    for number, status in stage.looking.outcomes(sorted(numbers)).items():
        stage.recorder.note("transaction", transaction=number, status=status)
