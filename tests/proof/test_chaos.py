"""Workers are killed and frozen while neighbours hold and change the rows of their jobs, in a run of the real program.

For some seconds, and until a worker was killed. `make proof PART=chaos` lasts ten minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.kill.__main__ import read_history

from tests.proof.performing import perform

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres

SEED = "4"
"""One whose first workers are killed, frozen, paused and told to shut down within two seconds."""

pytestmark = [pytest.mark.claims, pytest.mark.timeout(600)]


def test_nothing_stays_locked_whatever_neighbours_do_to_the_rows(server: EmbeddedPostgres, tmp_path: Path) -> None:
    printed, folder = perform("benchmarks.chaos", server, tmp_path, "--minutes", "0.05", "--seed", SEED)

    assert "NOTHING WENT WRONG" in printed
    assert {"acts", "killing"} <= {line["event"] for line in read_history(Path(folder))}
