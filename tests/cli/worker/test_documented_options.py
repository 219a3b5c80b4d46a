"""The docs of `ferryman worker` are complete, and their examples work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from ferryman.cli.worker.worker_command import worker
from tests.support.commands import RunningCommand

if TYPE_CHECKING:
    from ferryman import SyncClient

ROOT = Path(__file__).parents[3]
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("cli.md", "deployment.md")}
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _commands() -> list[list[str]]:
    """Return the arguments of every `ferryman worker` on these pages, in shells, systemd units and containers."""
    lines = [line for page in PAGES.values() for line in page.splitlines()]
    in_shells = [
        shlex.split(line, comments=True) for line in lines if re.match(r"(ExecStart=\S*)?ferryman worker", line)
    ]
    in_containers = [json.loads(found) for line in lines for found in re.findall(r'\["ferryman", "worker".*\]', line)]
    return [command[2:] for command in (*in_shells, *in_containers)]


@pytest.mark.parametrize("arguments", _commands(), ids=" ".join)
def test_the_command_lines_of_the_docs_are_understood(arguments: list[str]) -> None:
    assert worker.make_context("worker", [*arguments]).params["target"]


def test_the_docs_show_command_lines_of_every_kind() -> None:
    assert len(_commands()) >= 6


def test_every_option_and_its_variable_is_in_the_table() -> None:
    rows = [line for line in PAGES["cli.md"].splitlines() if line.startswith("| `--")]

    for option in worker.params:
        if isinstance(option, click.Option):
            row = next((row for row in rows if f"`{option.opts[0]}" in row), "")
            assert row, option.opts
            assert not option.envvar or f"| `{option.envvar}` |" in row, option.opts


def test_platforms_wait_longer_than_the_worker_takes_to_stop() -> None:
    waits = re.findall(r"(?:terminationGracePeriodSeconds: |TimeoutStopSec=)(\d+)", PAGES["deployment.md"])
    graces = re.findall(r'--grace"?,? "?(\d+)', PAGES["deployment.md"])

    assert len(waits) == len(graces) == 2
    assert min(map(int, waits)) >= max(map(int, graces)) + 40


def test_the_application_of_the_page_runs(tmp_path: Path, database: str, sync_client: SyncClient) -> None:
    (tmp_path / "tasks.py").write_text("\n".join(PYTHON.findall(PAGES["cli.md"])))
    sync_client.add_raw_job("sketch", {"text": "a ferry"})

    started = RunningCommand(("worker", "tasks", "--once"), tmp_path, {"DATABASE_URL": database})

    assert started.wait() == 0
    assert "sketched 7 characters" in started.lines
