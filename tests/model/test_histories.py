"""All that workers, producers and sweepers may do, in any order: the tables are always as the model foretells.

The histories come in rounds, until everything has happened in them: mostly one round. The usual run is the same each
time, with sixty histories in a round, and two hundred with FERRYMAN_PROOF=1. For a long proof with new histories each
time:

    FERRYMAN_MODEL_HISTORIES=20000 pytest tests/model
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Histories

if TYPE_CHECKING:
    from tests.model.model_database import ModelDatabase

# Read before fixtures hide them.
MORE_HISTORIES = int(os.environ.get("FERRYMAN_MODEL_HISTORIES", "0"))
IS_FULL = "FERRYMAN_PROOF" in os.environ
SHRINKS = "FERRYMAN_MODEL_NO_SHRINK" not in os.environ
"""To make a failing history short may take minutes."""
USUAL = settings(
    max_examples=200 if IS_FULL else 60,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[*HealthCheck],
    phases=[*Phase] if SHRINKS else [Phase.generate],
)
LONG = settings(USUAL, derandomize=False, max_examples=MORE_HISTORIES or 1, print_blob=True)
SEEDS = [5, 0, 1, 2, 3, 4, 6, 7]
"""Of the rounds. Whatever should happen does in the first of them, unless a change has made other histories of it.

New histories have no seed, only as many rounds.
"""
OFTEN = {
    "claimed", "accepted", "refused", "start marked", "learnt that it was swept",
    "requeue", "retry", "fail", "poisoned", "given back", "superseded",
}  # fmt: skip


@pytest.mark.timeout(0 if MORE_HISTORIES else 1800)  # far more than the busiest machine has taken
def test_whatever_happens_the_tables_are_as_the_model_foretells(model_database: ModelDatabase) -> None:
    witness: Counter[str] = Counter()

    def histories() -> Histories:
        return Histories(model_database, witness)

    for number in SEEDS:
        told = histories if MORE_HISTORIES else seed(number)(histories)
        run_state_machine_as_test(told, settings=LONG if MORE_HISTORIES else USUAL)
        if {what for what, count in witness.items() if count} >= OFTEN:
            return
    pytest.fail(f"something did not happen: {witness}")
