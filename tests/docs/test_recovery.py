"""docs/recovery.md says which test holds us to which sentence; each of them exists, and no row is without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "recovery.md").read_text(encoding="utf-8").partition("## What is tested where")[2]
ROW = re.compile(r"^\| (?P<sentence>.+) \| (?P<tests>`tests/.+|there are no .+) \|$", re.MULTILINE)
NAME = re.compile(r"`(?P<path>tests/[^`:]+)::(?P<test>\w+)`")
SOURCES = ("Rust worker", "Graphile Worker Pro", "Horsies", "On top")
HEADS = 2
"""Lines at the top of each table."""


def rows() -> list[tuple[str, str]]:
    return [(row["sentence"], row["tests"]) for row in ROW.finditer(TEXT)]


def test_every_row_of_every_table_is_read() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("|")]
    assert len(rows()) == len(lines) - HEADS * len(SOURCES)
    assert [source for source in SOURCES if f"| {source} | test |" not in TEXT] == []


@pytest.mark.parametrize(("sentence", "tests"), rows())
def test_a_sentence_names_tests_that_exist(sentence: str, tests: str) -> None:
    named = NAME.findall(tests)
    assert [f"{path}::{test}" for path, test in named if f"def {test}(" not in _source(path)] == []
    assert named != [] or tests.startswith("there are no"), sentence


def _source(path: str) -> str:
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.exists() else ""
