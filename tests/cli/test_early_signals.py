"""`ferryman` before its imports are done, and as process 1 of a container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import EXECUTABLE, children_of
from tests.support.waiting import DEADLINE_SECONDS, until_blocking

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
SLOW_IMPORT = """
import pathlib
import time

pathlib.Path(__file__).with_name("importing").touch()
time.sleep(3600)
"""
LEAVE_AN_ORPHAN = """
import os
import subprocess
import sys
import time
from pathlib import Path

from ferryman.cli.early_signals import prepare

prepare(["jobs"])
number = subprocess.run(["sh", "-c", "sleep 0.1 >&2 & echo $!"], stdout=subprocess.PIPE, check=True).stdout
orphan = Path("/proc", number.decode().strip())
assert "sleep" in (orphan / "cmdline").read_text()
while orphan.exists():
    time.sleep(0.01)
sys.exit(7)
"""


def as_process_one(command: Sequence[object]) -> list[str]:
    if subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces of processes are not permitted here")
    return [*CONTAINER, *map(str, command)]


@pytest.mark.parametrize(
    ("arguments", "is_one", "number", "code"),
    [
        (["worker", "tasks"], True, signal.SIGTERM, 0),
        (["migrate"], True, signal.SIGTERM, 128 + signal.SIGTERM),
        (["worker", "tasks"], False, signal.SIGTERM, 0),
        (["worker", "tasks"], False, signal.SIGINT, 130),
    ],
)
def test_a_signal_while_the_command_is_being_imported_ends_it(
    tmp_path: Path, arguments: list[str], is_one: bool, number: signal.Signals, code: int
) -> None:
    (tmp_path / "click.py").write_text(SLOW_IMPORT)
    command = [EXECUTABLE, *arguments]
    started = subprocess.Popen(
        as_process_one(command) if is_one else command,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
    )
    try:
        until_blocking((tmp_path / "importing").exists, "the command is being imported")
        [target] = children_of(started.pid) if is_one else [started.pid]
        os.kill(target, number)
        _, told = started.communicate(timeout=DEADLINE_SECONDS)
    finally:
        started.kill()
        started.wait()

    assert (started.returncode, told) == (code, b"")


def test_process_one_reaps_orphans_and_ends_as_the_command_does(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LEAVE_AN_ORPHAN)

    ended = subprocess.run(
        as_process_one([sys.executable, tmp_path / "script.py"]),
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )

    assert (ended.returncode, ended.stderr) == (7, "")
