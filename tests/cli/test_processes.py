"""`ferryman` as a process: exit codes, pipes and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import RawJobSpec
from tests.support.commands import EXECUTABLE
from tests.support.own_servers import copy_made_server
from tests.support.processes import Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ferryman import SyncClient

    Process = Callable[..., subprocess.Popen[bytes]]


SIGNALS_AT_EACH_LINE = """
import os
import queue
import signal
import sys
import threading

from ferryman.cli.commands.local import stop_signals


def trace(frame, event, _):
    if frame.f_code.co_filename in (threading.__file__, queue.__file__):
        os.kill(os.getpid(), signal.SIGTERM)
        return trace


stop = stop_signals()
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
sys.settrace(trace)
stop.get()
"""


def test_the_exit_code_reaches_the_shell(process: Process, database: str) -> None:
    where = {"DATABASE_URL": database}
    for arguments, code in ((["jobs", "show", "7"], 1), (["jobs", "shwo"], 2)):
        started = process(arguments, environment=where)
        started.communicate()
        assert code == started.returncode


def test_the_module_is_the_command_too() -> None:
    shown = subprocess.run([sys.executable, "-m", "ferryman.cli", "--version"], capture_output=True, check=True)

    assert shown.stdout.startswith(b"ferryman ")


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_reader_that_leaves_early_is_no_reason_to_complain(
    process: Process, database: str, sync_client: SyncClient, option: list[str]
) -> None:
    sync_client.add_raw_jobs([RawJobSpec("mail", {"text": "x" * 500}) for _ in range(1000)])
    read, write = os.pipe()
    os.close(read)

    started = process(
        ["jobs", "list", "--limit", "1000", *option], stdout=write, environment={"DATABASE_URL": database}
    )
    os.close(write)
    _, told = started.communicate()

    assert told == b""
    assert started.returncode == 1


def test_a_closed_output_does_not_keep_a_command_from_its_work(process: Process, database: str) -> None:
    script = 'exec "$0" jobs add mail >&-'
    subprocess.run(["sh", "-c", script, EXECUTABLE], env={**os.environ, "DATABASE_URL": database}, check=True)

    counting = process(["jobs", "counts", "--json"], environment={"DATABASE_URL": database})
    counted, _ = counting.communicate()
    assert counting.returncode == 0
    assert json.loads(counted)["ready"] == 1


def test_output_in_a_poor_encoding_is_still_complete(process: Process, database: str, sync_client: SyncClient) -> None:
    sync_client.add_raw_job("fähre", {"🚢": 1})
    poor = {"DATABASE_URL": database, "PYTHONIOENCODING": "ascii"}

    exact, _ = process(["jobs", "show", "1", "--json"], environment=poor).communicate()
    shown, told = process(["jobs", "show", "1"], environment=poor).communicate()

    assert json.loads(exact)["payload"] == {"🚢": 1}
    assert rb"f\xe4hre" in shown
    assert told == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_private_postgres_runs_until_it_is_told_to_stop(
    process: Process, server_folder: Path, number: signal.Signals
) -> None:
    folder = copy_made_server(server_folder / "postgres")
    started = process(["postgres", "--folder", str(folder), "--json"])
    assert started.stdout is not None
    ready = json.loads(started.stdout.readline())
    with psycopg.connect(ready["database_url"]) as connection:
        assert connection.execute("select 1").fetchone() == (1,)

    started.send_signal(number)
    _, told = started.communicate()

    assert started.returncode == 0
    assert told == b""
    assert str(folder) == ready["folder"]


def test_the_private_postgres_may_be_told_to_stop_at_any_moment(tmp_path: Path) -> None:
    """A signal may arrive while the command waits or handles another signal: at each line that Python runs for that."""
    (tmp_path / "stopping.py").write_text(SIGNALS_AT_EACH_LINE)
    waiting = Program("stopping", folder=tmp_path)
    try:
        assert waiting.wait() == 0
    finally:
        waiting.end()


def test_the_private_postgres_prints_a_line_to_copy(process: Process, server_folder: Path) -> None:
    folder = copy_made_server(server_folder / "postgres")
    started = process(["postgres", "--folder", str(folder)])
    assert started.stdout is not None
    line = started.stdout.readline().decode()
    script = f'{line}\nexec "$0" schema status'
    asked = subprocess.run(["sh", "-c", script, EXECUTABLE], capture_output=True, check=False)

    started.send_signal(signal.SIGINT)
    _, told = started.communicate()

    assert line.startswith("export DATABASE_URL=postgresql://")
    assert b"ferryman migrate" in asked.stdout
    assert b"Stop it with Ctrl-C." in told
    assert b"The data stays." in told


def test_a_folder_that_cannot_be_used_is_told_without_a_traceback(process: Process, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    started = process(["postgres", "--folder", str(tmp_path / "file" / "below")])
    _, told = started.communicate()

    assert started.returncode == 1
    assert told.startswith(b"Error: ")
    assert b"Traceback" not in told
