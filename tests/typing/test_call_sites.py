from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]


@pytest.mark.parametrize("file", ["call_sites.py", "mistakes.py"])
def test_mypy_accepts_what_is_right_and_finds_every_mistake(file: str) -> None:
    """In strict mode an ignore without an error is itself an error, so every marked line is one that mypy refuses."""
    pytest.importorskip("mypy")

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(HERE / file)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_mistakes_are_the_only_marked_lines() -> None:
    """A right call with an ignore on it would hide a regression."""
    marked = [line for line in (HERE / "call_sites.py").read_text().splitlines() if "type: ignore" in line]

    assert marked == []
