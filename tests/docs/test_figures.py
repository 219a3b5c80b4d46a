"""The figures that pages for newcomers quote are those of the proof, of the benchmarks and of the table of faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
FACTORS = {"3": "pgqueuer", "5": "graphile-worker"}
"""How many times as fast the README says that we are, and the row of the benchmarks that must not show less."""


def proof(name: str) -> str:
    return (ROOT / "docs" / "proof" / name).read_text(encoding="utf-8")


def counted(text: str, name: str) -> int:
    """The first number in the line of a table of the proof."""
    return int(re.search(rf"^{re.escape(name)} +([\d,]+)$", text, re.MULTILINE)[1].replace(",", ""))  # type: ignore[index]


def test_the_workers_that_were_killed_and_frozen_are_those_of_the_proof() -> None:
    kills, _, zombies = proof("kills-seed-1.txt").partition("200 zombies")
    killed = counted(kills, "killed with SIGKILL") + counted(kills, "ended by os._exit in a handler")
    frozen = counted(zombies, "frozen, most of them until they were swept")
    assert f"{killed:,} workers killed, {frozen} frozen and thawed; 0 jobs lost" in README
    assert {counted(part, "breaches") for part in (kills, zombies)} == {0}


@pytest.mark.parametrize("page", ["README.md", "docs/recovery.md"])
def test_the_time_of_recovery_is_that_of_the_trials(page: str) -> None:
    trials = proof("recovery-time.txt")
    longest = float(re.search(r"^longest +([\d.]+) s$", trials, re.MULTILINE)[1])  # type: ignore[index]
    assert "100 of 100 within" in trials
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert f"within {longest:.1f} s" in text


def test_the_faults_are_counted() -> None:
    page = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    tests = re.findall(r"^\| \d+ \|.*\| (.+) \|$", page, re.MULTILINE)
    tested = sum(each != "not yet" for each in tests)
    assert f"[{len(tests)} faults](docs/faults.md), {tested} of them with a test" in " ".join(README.split())
    assert f"**{tested} of the {len(tests)} faults on this page have a test" in page


@pytest.mark.parametrize(("factor", "peer"), FACTORS.items())
def test_the_benchmarks_show_no_less_than_the_readme_says(factor: str, peer: str) -> None:
    assert f"{factor} times as fast as" in README
    table = BENCHMARKS.partition("**Default settings, concurrency 24, 1 process**")[2].partition("\n\n**")[0]
    shown = re.search(rf"^\| {peer} [^|]+\|[^|]+\|[^|]+\| ([\d.]+)x \|", table, re.MULTILINE)
    assert shown is not None
    assert float(shown[1]) >= float(factor)


def test_the_benchmarks_show_no_less_for_a_local_queue_than_its_page_says() -> None:
    page = " ".join((ROOT / "docs" / "local-queue.md").read_text(encoding="utf-8").split())
    assert "with a local queue of 2,000 ran jobs that do nothing 3 times as fast as one without" in page
    assert "| ferryman | concurrency 24 | concurrency 24, local_queue 2000 |" in BENCHMARKS
    rates = [
        float(re.search(r"^\| ferryman \| ([\d,]+)", table, re.MULTILINE)[1].replace(",", ""))  # type: ignore[index]
        for table in (
            BENCHMARKS.partition("**Best settings, 1 process**")[2],
            BENCHMARKS.partition("**Default settings, concurrency 24, 1 process**")[2],
        )
    ]
    assert rates[0] / rates[1] >= 3
