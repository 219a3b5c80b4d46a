"""Many migrators that begin at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start_migrator(dsn: str) -> subprocess.Popen[str]:
    """A process that waits for the word to migrate."""
    return start_program([sys.executable, "-m", "tests.support.programs.migrator", dsn])


def start_program(command: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment or None,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def race(programs: list[subprocess.Popen[str]]) -> list[str]:
    """Wait until all are ready, give the word to all, and collect what they say; fails when one of them fails."""
    for program in programs:
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
    for program in programs:
        program.stdin.write("go\n")
        program.stdin.flush()
    results = [program.communicate(timeout=60) for program in programs]
    errors = "".join(error for _, error in results)
    assert [program.returncode for program in programs] == [0] * len(programs), errors
    return [output.strip() for output, _ in results]
