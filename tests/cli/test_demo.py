"""The program behind `make demo`, and how it judges the notes of its workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

WITH_A_FALSE_FACT = """
import sys
import demo

demo.FIRST_ACT = (lambda stage: stage.check("two is three", 2, 3),)
demo.second_act.perform = lambda stage: None
sys.exit(demo.main())
"""


@pytest.mark.realtime
def test_the_demo_finds_every_fact_as_it_should_be_and_leaves_nothing_behind(server_folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py"],
        env={**os.environ, "TMPDIR": str(server_folder)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "✗" not in ran.stdout
    assert ran.stderr == ""
    assert [*server_folder.iterdir()] == []
    shown = " ".join(ran.stdout.split())
    assert re.search(r"chime ran for \d\d:\d\d \(missed\), .*; 3 workers look after it", shown)
    assert re.search(r"killed (\S+) \(process \d+\) in the midst of [1-9]\d* jobs", shown)
    assert re.search(r"found it dead \(silent\)", shown)
    assert re.search(r"thawed it: [1-9]\d* of its results were refused", shown)
    assert "0 of 2,000 jobs were lost" in shown
    assert "no job was settled by a worker that had lost it" in shown


def test_a_fact_that_does_not_hold_is_shown_and_makes_the_demo_fail(server_folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITH_A_FALSE_FACT],
        cwd=EXAMPLES,
        env={**os.environ, "TMPDIR": str(server_folder)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 1, ran.stderr
    assert "two is three: expected 2, found 3" in ran.stdout


class Notes:
    """Write a file of notes, as workers do."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = 0

    def add(self, what: str, worker: str, job: int = 1, **more: Any) -> None:
        self._at += 1
        note = {"what": what, "at": self._at, "worker": worker, "job": job, "claim": f"{job} {worker}", **more}
        with self._file.open("a") as file:
            file.write(json.dumps(note) + "\n")

    def read(self) -> Any:
        spec = spec_from_file_location("examples_history", EXAMPLES / "history.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.History(self._file)


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "history")


def test_a_job_that_only_a_worker_which_had_lost_it_has_ended_is_lost(notes: Notes) -> None:
    notes.add("start", "a")
    notes.add("take", "a")
    notes.add("end", "a")
    assert notes.read().lost([1]) == {1}

    notes.add("start", "b")
    notes.add("end", "b")
    assert notes.read().lost([1]) == set()


def test_a_settlement_by_a_worker_from_which_the_job_was_taken_is_found(notes: Notes) -> None:
    for what in ("start", "take", "end"):
        notes.add(what, "a")
    for what in ("start", "end", "settle"):
        notes.add(what, "b")
    assert notes.read().settled_by_others() == []

    notes.add("settle", "a")
    assert [note.worker for note in notes.read().settled_by_others()] == ["a"]
    assert notes.read().settled_twice() == [1]


def test_a_settlement_by_a_worker_that_never_ran_the_job_is_found(notes: Notes) -> None:
    notes.add("start", "a")
    notes.add("settle", "b")

    assert [note.worker for note in notes.read().settled_by_others()] == ["b"]


def test_a_job_that_nobody_has_begun_again_is_missing_among_the_starts_elsewhere(notes: Notes) -> None:
    for job in (1, 2):
        notes.add("start", "a", job)
        notes.add("take", "a", job)
    notes.add("start", "b", 1)

    assert set(notes.read().starts_elsewhere("a", after=4)) == {1}


def test_only_what_a_worker_had_begun_before_it_lost_it_must_be_refused(notes: Notes) -> None:
    for job in (1, 2):
        notes.add("start", "a", job)
    for job in (2, 3):
        notes.add("take", "a", job)

    assert notes.read().begun_and_taken("a") == {2}


def test_two_jobs_of_a_queue_at_once_are_found_unless_one_was_taken_away(notes: Notes) -> None:
    notes.add("start", "a", 1, queue="q")
    notes.add("start", "b", 2, queue="q")
    notes.add("end", "b", 2, queue="q")
    assert notes.read().overlaps() == ["q"]

    notes.add("take", "a", 1, queue="q")
    assert notes.read().overlaps() == []


def test_a_job_that_ran_again_without_a_death_is_counted_twice(notes: Notes) -> None:
    for worker in ("a", "b"):
        notes.add("start", worker, 1)
    notes.add("start", "a", 2)
    notes.add("take", "a", 2)
    notes.add("start", "b", 2)

    assert notes.read().times_run([1, 2]) == {2: 1}
