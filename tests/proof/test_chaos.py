"""Workers are killed and frozen while neighbours hold and change the rows of their jobs, in a run of the real program.

For some seconds, and until two workers were killed. `make proof PART=chaos` lasts ten minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.kill.__main__ import read_history

from tests.proof.performing import perform

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres

KILLS = 2

pytestmark = [pytest.mark.claims, pytest.mark.timeout(600)]


def test_nothing_stays_locked_whatever_neighbours_do_to_the_rows(server: EmbeddedPostgres, tmp_path: Path) -> None:
    printed, folder = perform(
        "benchmarks.chaos", server, tmp_path, "--minutes", "0.05", "--kills", str(KILLS), "--seed", "1"
    )

    history = read_history(Path(folder))
    assert "NOTHING WENT WRONG" in printed
    assert len([line for line in history if line["event"] == "died" and line["code"] == -9]) >= KILLS
    assert {line["neighbour"].split()[0] for line in history if line["event"] == "acted"} == {
        "producer",
        "operator",
        "locker",
        "assassin",
    }
    assert {line["status"] for line in history if line["event"] == "transaction"} == {"committed", "aborted"}
