"""docs/proof/seeds.md says which test holds us to which promise; each of them exists, and no row is without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "proof" / "seeds.md").read_text(encoding="utf-8")
SEEDS = ("000", "001", "002", "003", "004")
SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!## ).*\n)*)", re.MULTILINE)
ROW = re.compile(r"^\| (?P<promise>.+?) \| (?P<tests>(?:`tests/|not yet: ).+) \|$", re.MULTILINE)
NAME = re.compile(r"`(?P<path>tests/[^`:]+)::(?P<test>\w+)`")
NOT_YET = re.compile(r"not yet: (?P<points>.+)")
HEAD = "| promise | test |"


def sections() -> dict[str, str]:
    return {section["title"]: section["body"] for section in SECTION.finditer(TEXT)}


def rows() -> list[tuple[str, str]]:
    return [(row["promise"], row["tests"]) for row in ROW.finditer(TEXT)]


def points() -> list[str]:
    """What the list of things that are not there yet names."""
    return re.findall(r"^\| (.+?) \| .+ \|$", sections()["Not yet"], re.MULTILINE)[1:]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_seed_has_its_section(seed: str) -> None:
    [body] = [body for title, body in sections().items() if title.startswith(f"Seed {seed}: ")]
    assert ROW.search(body), "a section without rows"


def test_every_row_of_every_table_is_read() -> None:
    tables = TEXT.partition(f"## Seed {SEEDS[0]}")[2]
    lines = [line for line in tables.splitlines() if line.startswith("|")]
    assert len(rows()) == len(lines) - 2 * lines.count(HEAD)


@pytest.mark.parametrize(("promise", "tests"), rows())
def test_a_promise_names_tests_that_exist_or_says_what_is_missing(promise: str, tests: str) -> None:
    *named, last = tests.split("<br>")
    missing = NOT_YET.fullmatch(last)
    if missing is None:
        named.append(last)
    assert [each for each in named if not _exists(each)] == []
    assert missing is None or {*missing["points"].split(", ")} <= {*points()}, promise


def test_everything_that_is_not_there_yet_belongs_to_a_row() -> None:
    used = {point for _, tests in rows() for each in NOT_YET.finditer(tests) for point in each["points"].split(", ")}
    assert {*points()} == used


def _exists(named: str) -> bool:
    name = NAME.fullmatch(named)
    if name is None or not (ROOT / name["path"]).exists():
        return False
    return f"def {name['test']}(" in (ROOT / name["path"]).read_text(encoding="utf-8")
