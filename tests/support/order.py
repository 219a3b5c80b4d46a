"""The order of tests: slow ones spread among quick ones, the slowest first.

Slow tests wait most of the time, and quick ones compute. Mixed, they keep the cores busy from the beginning, and no
process is left alone with a slow one at the end.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """Sort in place: slow tests among quick ones; or all of them at random, the same for each seed."""
    if shuffle is None:
        items[:] = _mixed(items, seconds)
    else:
        random.Random(shuffle).shuffle(items)


def _mixed(items: list[pytest.Item], seconds: Mapping[str, float]) -> Iterator[pytest.Item]:
    """Each slow test, the slowest first, and after it a share of the quick ones that is as large as its own of time."""
    slow = sorted((item for item in items if item.nodeid in seconds), key=lambda item: -seconds[item.nodeid])
    quick = [item for item in items if item.nodeid not in seconds]
    in_all = sum(seconds[item.nodeid] for item in slow)
    spent, taken = 0.0, 0
    for item in slow:
        yield item
        spent += seconds[item.nodeid]
        due = round(len(quick) * spent / in_all)
        yield from quick[taken:due]
        taken = due
    yield from quick[taken:]


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
