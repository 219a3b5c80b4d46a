"""The program behind `make demo`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_finds_every_fact_as_it_should_be_and_leaves_nothing_behind() -> None:
    folders = set(Path(tempfile.gettempdir()).glob("ferryman-demo-*"))

    ran = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "✗" not in ran.stdout
    assert ran.stderr == ""
    assert folders >= set(Path(tempfile.gettempdir()).glob("ferryman-demo-*"))
