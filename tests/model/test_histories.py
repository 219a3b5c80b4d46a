"""All that workers, producers and sweepers may do, in any order: the tables are always as the model foretells.

The usual run is the same each time: sixty histories, and two hundred with FERRYMAN_PROOF=1. For a long proof with new
histories each time:

    FERRYMAN_MODEL_HISTORIES=20000 pytest tests/model
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Histories

if TYPE_CHECKING:
    from tests.model.world import World

# Read before fixtures hide them.
MORE_HISTORIES = int(os.environ.get("FERRYMAN_MODEL_HISTORIES", "0"))
IS_FULL = "FERRYMAN_PROOF" in os.environ
SHRINKS = "FERRYMAN_MODEL_NO_SHRINK" not in os.environ
"""To make a failing history short may take minutes."""
FEW, ALL = 60, 200
USUAL = settings(
    max_examples=FEW,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[*HealthCheck],
    phases=[*Phase] if SHRINKS else [Phase.generate],
)
FULL = settings(USUAL, max_examples=ALL)
LONG = settings(USUAL, derandomize=False, max_examples=MORE_HISTORIES or 1, print_blob=True)
OFTEN = {
    "claimed", "accepted", "refused", "start marked", "learnt that it was swept",
    "requeue", "retry", "fail", "poisoned", "given back", "superseded",
}  # fmt: skip


@pytest.mark.timeout(0 if MORE_HISTORIES else 600)
def test_whatever_happens_the_tables_are_as_the_model_foretells(world: World) -> None:
    witness: Counter[str] = Counter()
    for form in [LONG] if MORE_HISTORIES else [FULL] if IS_FULL else [USUAL, FULL]:
        run_state_machine_as_test(lambda: Histories(world, witness), settings=form)
        # Another Hypothesis tells other histories, and few of them may happen to lack something.
        if {what for what, count in witness.items() if count} >= OFTEN:
            return
    pytest.fail(f"did not happen: {[what for what in OFTEN if not witness[what]]}")
