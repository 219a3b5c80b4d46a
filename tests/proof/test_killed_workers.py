"""Two hundred workers are killed, and some are frozen and thawed, in a run of the real program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.kill.checker import judge, story

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
KILLS = 200
ZOMBIES = 10

pytestmark = pytest.mark.timeout(300)  # about 40 s when the machine has nothing else to do


def perform(server: EmbeddedPostgres, folder: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    """Run the program; what it printed, and its history."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kill", "--database-url", server.dsn, "--keep", str(folder), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    [history] = folder.glob("*/history.jsonl")
    return done.stdout, [json.loads(line) for line in history.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def run(server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    return perform(server, tmp_path_factory.mktemp("kills"), "--kills", str(KILLS), "--seed", "1")


@pytest.fixture
def history(run: tuple[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [*run[1]]


def test_nothing_goes_wrong_while_workers_are_killed(run: tuple[str, list[dict[str, Any]]]) -> None:
    printed, history = run

    assert "NOTHING WENT WRONG" in printed
    violent = [line for line in history if line["event"] == "died" and line["code"] in {-9, 70}]
    assert len(violent) >= KILLS
    assert judge(history).duplicates["worker killed while it ran"] > 0
    assert len([line for line in history if line["event"] == "added"]) > KILLS * 5


def test_a_thawed_worker_is_refused_whatever_it_brings(server: EmbeddedPostgres, tmp_path: Path) -> None:
    printed, history = perform(server, tmp_path, "--kills", "0", "--zombies", str(ZOMBIES), "--seed", "1")

    verdict = judge(history, thawed_are_refused=True)
    assert "NOTHING WENT WRONG" in printed
    assert len([line for line in history if line["event"] == "froze"]) == ZOMBIES
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
