"""The real command, run in this process for breadth and as a process of its own where that matters."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.commands import EXECUTABLE, Ran, run_here

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
    """Start `ferryman` as a process of its own; the test must wait for it."""

    def start(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **options.pop("environment", {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([EXECUTABLE, *arguments], env=environment, **{**pipes, **options})

    return start
