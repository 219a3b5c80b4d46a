"""docs/proof/recovery-tests.md names a test for each difference from other workers; each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "proof" / "recovery-tests.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<elsewhere>.+?) \| .+ \| .+ \| (?P<tests>`tests/.+`) \|$", re.MULTILINE)
NAME = re.compile(r"`(?P<path>tests/[^`:]+)::(?P<test>\w+)`")


def rows() -> list[tuple[str, str]]:
    return [(row["elsewhere"], row["tests"]) for row in ROW.finditer(TEXT)]


def test_every_row_is_read() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("|")]
    assert len(rows()) == len(lines) - 2  # the heading and the line below it


@pytest.mark.parametrize(("elsewhere", "tests"), rows())
def test_a_difference_names_tests_that_exist(elsewhere: str, tests: str) -> None:
    assert [each for each in tests.split("<br>") if not _exists(each)] == [], elsewhere


def _exists(named: str) -> bool:
    name = NAME.fullmatch(named)
    if name is None or not (ROOT / name["path"]).exists():
        return False
    return f"def {name['test']}(" in (ROOT / name["path"]).read_text(encoding="utf-8")
