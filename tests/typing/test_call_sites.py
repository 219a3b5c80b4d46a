"""What mypy and pyright make of calls that are right and calls that are not, looked at file by file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.npm import NODE
from tests.support.once import once

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
RIGHT, MISTAKEN = ("call_sites.py", "hook_call_sites.py"), ("mistakes.py", "hook_mistakes.py")


def _complaints() -> list[str]:
    """One run for all files, and with the cache that `make check` has just filled."""
    files = [str(HERE / name) for name in (*RIGHT, *MISTAKEN)]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *files],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stderr == ""
    assert (checked.returncode == 0) == (checked.stdout == "")
    return checked.stdout.splitlines()


@pytest.mark.parametrize("file", [*RIGHT, *MISTAKEN])
def test_mypy_accepts_what_is_right_and_finds_every_mistake(file: str) -> None:
    """In strict mode an ignore without an error is itself an error, so every marked line is one that mypy refuses."""
    pytest.importorskip("mypy")
    others = tuple(str((HERE / each).relative_to(PROJECT)) for each in (*RIGHT, *MISTAKEN) if each != file)

    assert [line for line in once("mypy", _complaints) if not line.startswith(others)] == []


def test_pyright_accepts_what_is_right_and_finds_every_mistake() -> None:
    """Here too an ignore without an error is an error, by `[tool.pyright]`. One wheel has pyright, another its Node."""
    program = Path(str(pytest.importorskip("pyright").__file__)).parent / "dist" / "index.js"
    checked = subprocess.run(
        [NODE, program, "--pythonpath", sys.executable], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert checked.stdout == "0 errors, 0 warnings, 0 informations\n"
    assert checked.returncode == 0


@pytest.mark.parametrize("file", RIGHT)
def test_the_mistakes_are_the_only_marked_lines(file: str) -> None:
    """A right call with an ignore on it would hide a regression."""
    marked = [line for line in (HERE / file).read_text().splitlines() if "type: ignore" in line]

    assert marked == []
