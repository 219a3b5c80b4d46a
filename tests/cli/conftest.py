"""The real command, run in this process for breadth and as a process of its own where that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ferryman.cli.program import program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXECUTABLE = Path(sys.executable).with_name("ferryman")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The one document on stderr."""
        assert self.out == ""
        return json.loads(self.err)["error"]


@pytest.fixture
def run() -> Callable[..., Ran]:
    """Run `ferryman` in this process, on the database that the environment names."""

    def call(*arguments: object, stdin: str | bytes | None = None) -> Ran:
        result = CliRunner().invoke(program, [str(argument) for argument in arguments], input=stdin)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def ferryman(run: Callable[..., Ran], database: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run `ferryman` on a fresh database with the schema installed."""
    monkeypatch.setenv("DATABASE_URL", database)
    return run


@pytest.fixture
def process() -> Callable[..., subprocess.Popen[bytes]]:
    """Start `ferryman` as a process of its own; the test must wait for it."""

    def start(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **options.pop("environment", {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([EXECUTABLE, *arguments], env=environment, **{**pipes, **options})

    return start
