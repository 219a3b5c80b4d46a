"""Runs of the proofs, as programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[2]


def perform(module: str, server: EmbeddedPostgres, folder: Path, *options: str) -> tuple[str, str]:
    """Run the program; what it printed, and the folder of its history."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--database-url", server.dsn, "--keep", str(folder), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    [kept] = folder.iterdir()
    return done.stdout, str(kept)
