"""The order of tests: those that take longest first, so that no process is left alone with one at the end."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

RECORD = Path(__file__).parents[1] / "durations.json"
"""Seconds of tests, as a run with `--record-durations` has seen them."""
WORTH_A_LINE = 0.3
SLOW = 1.0
"""Tests of so many seconds are left out of `make test-fast`."""


def recorded() -> dict[str, float]:
    """The tests that take long, and their seconds."""
    known: dict[str, float] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return known


def sort(items: list[pytest.Item], seconds: Mapping[str, float], shuffle: int | None) -> None:
    """Sort in place: slow tests first, the others as they were; or all of them at random, the same for each seed."""
    if shuffle is None:
        items.sort(key=lambda item: -seconds.get(item.nodeid, 0.0))
    else:
        random.Random(shuffle).shuffle(items)


class Recorder:
    """Gathers the seconds of a run."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a part of a test: its set-up, the test, its end."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write down what the next runs go by. Tests that did not run keep what was known of them."""
        seconds = {**recorded(), **self._seconds}
        worth = {test: round(each, 1) for test, each in sorted(seconds.items()) if each >= WORTH_A_LINE}
        RECORD.write_text(json.dumps(worth, indent=0) + "\n")
