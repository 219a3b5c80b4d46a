"""Workers are killed, and some are frozen and thawed, in a run of the real program.

Sixty are killed and four are frozen; two hundred and ten with FERRYMAN_PROOF=1. `make proof` kills ten thousand.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.kill.__main__ import read_history
from benchmarks.kill.checker import judge, story

from tests.proof.performing import perform
from tests.support.once import once

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres

# Read before fixtures hide it.
IS_FULL = "FERRYMAN_PROOF" in os.environ
KILLS, ZOMBIES = (200, 10) if IS_FULL else (60, 4)

pytestmark = pytest.mark.timeout(600)  # 15 s, or 40, when the machine has nothing else to do


@pytest.fixture
def run(server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """One for all tests and processes."""
    printed, folder = once(
        "kill run",
        lambda: perform(
            "benchmarks.kill", server, tmp_path_factory.mktemp("kills"), "--kills", str(KILLS), "--seed", "1"
        ),
    )
    return printed, folder


@pytest.fixture
def history(run: tuple[str, str]) -> list[dict[str, Any]]:
    return read_history(Path(run[1]))


def test_nothing_goes_wrong_while_workers_are_killed(run: tuple[str, str], history: list[dict[str, Any]]) -> None:
    assert "NOTHING WENT WRONG" in run[0]
    violent = [line for line in history if line["event"] == "died" and line["code"] in {-9, 70}]
    assert len(violent) >= KILLS
    assert judge(history).duplicates["worker killed while it ran"] > 0
    assert len([line for line in history if line["event"] == "added"]) > KILLS * 5


def test_a_thawed_worker_is_refused_whatever_it_brings(server: EmbeddedPostgres, tmp_path: Path) -> None:
    printed, folder = perform(
        "benchmarks.kill", server, tmp_path, "--kills", "0", "--zombies", str(ZOMBIES), "--seed", "1"
    )

    history = read_history(Path(folder))
    verdict = judge(history, thawed_are_refused=True)
    assert "NOTHING WENT WRONG" in printed
    # More than these, or one of them more than once, when the machine pauses processes too.
    assert len({line["of"] for line in history if line["event"] == "froze"}) >= ZOMBIES
    assert verdict.counts["settlements refused"] >= ZOMBIES
    assert verdict.counts["jobs that their thawed worker claimed again"] > 0


def test_a_job_that_is_made_to_vanish_is_found(history: list[dict[str, Any]]) -> None:
    last = [line for line in history if line["event"] == "ended"][-1]
    history.remove(last)

    assert any(breach.number == last["number"] for breach in judge(history).breaches)
    assert "started" in "\n".join(story(history, last["number"]))


def claim(line: dict[str, Any]) -> tuple[int, str, int]:
    return line["job"], line["worker"], line["attempt"]


def test_a_settlement_that_is_forged_is_found(history: list[dict[str, Any]]) -> None:
    """As if a worker that was swept had come through with what it brought."""
    crashes = {claim(line) for line in history if line["event"] == "crash"}
    lost = next(line for line in history if line["event"] == "started" and claim(line) in crashes)
    history.append({**lost, "event": "settled", "at": history[-1]["at"]})

    assert any("from which it had been taken" in breach.text for breach in judge(history).breaches)


def test_a_run_that_is_made_up_is_found(history: list[dict[str, Any]]) -> None:
    """As if two workers had been given the same job."""
    settled = {line["claim"] for line in history if line["event"] == "settled"}
    once = next(line for line in history if line["event"] == "started" and line["claim"] in settled)
    forged = {**once, "run": "forged", "worker": "forged", "claim": "forged", "claimed": once["claimed"] + 1}
    history += [forged, {**forged, "event": "ended"}]

    texts = [breach.text for breach in judge(history).breaches]
    assert any("ran again although nothing had happened" in text for text in texts)
    assert any("was not its last owner" in text for text in texts)
