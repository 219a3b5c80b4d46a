"""docs/faults.md names tests; each of them exists, and no row is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
ROW = re.compile(r"^\| (?P<number>\d+) \| .+ \| .+ \| (?P<tests>.+) \|$", re.MULTILINE)
NAME = re.compile(r"`(?P<path>tests/[^`:]+)::(?P<test>\w+)`")


def rows() -> list[tuple[int, str]]:
    return [(int(row["number"]), row["tests"]) for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))]


def test_the_rows_are_numbered_without_gaps() -> None:
    assert [number for number, _ in rows()] == list(range(1, 87))


@pytest.mark.parametrize(("number", "tests"), rows(), ids=lambda value: str(value) if isinstance(value, int) else "")
def test_a_row_names_tests_that_exist_or_says_not_yet(number: int, tests: str) -> None:
    named = NAME.findall(tests)
    missing = [f"{path}::{test}" for path, test in named if f"def {test}(" not in _source(path)]
    assert missing == []
    assert named != [] or tests == "not yet"


def _source(path: str) -> str:
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.exists() else ""
