"""Runs the real command: in this process for most tests, as a process of its own where that matters."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.commands import EXECUTABLE, Ran, run_here
from tests.support.server import quick_place, reachable_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder for a server of the test's own. Servers that commands start wait for the disk."""
    with reachable_folder(quick_place()) as folder:
        yield folder


@pytest.fixture
def run() -> Callable[..., Ran]:
    """Run `ferryman` in this process, on the database that the environment names."""
    return run_here


@pytest.fixture
def ferryman(database: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run `ferryman` on a fresh database with the schema installed."""
    monkeypatch.setenv("DATABASE_URL", database)
    return run_here


@pytest.fixture
def process() -> Callable[..., subprocess.Popen[bytes]]:
    """Start `ferryman` as a process of its own. The test must wait for its end."""

    def start(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **options.pop("environment", {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([EXECUTABLE, *arguments], env=environment, **{**pipes, **options})

    return start
