"""The processes around one embedded server, found from the outside."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ferryman import embedded, errors
from ferryman.embedded import find_binaries
from ferryman.embedded.account import account_for
from ferryman.embedded.binaries import usable_by
from ferryman.embedded.locks import Deadline, is_locked
from ferryman.embedded.paths import ServerFiles
from tests.support.processes import is_running
from tests.support.waiting import DEADLINE_SECONDS, until_blocking

USER = Path(__file__).parent / "programs" / "embedded_user.py"


class User:
    """A process that uses the server of a folder until it is told to leave, or killed."""

    def __init__(
        self,
        folder: Path,
        *,
        linger: float = 0.2,
        python: str = sys.executable,
        script: Path = USER,
        **options: Any,
    ) -> None:
        command = [python, str(script), str(folder), str(linger)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True, **options
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def joined(self) -> str:
        """Wait until it has the server; give back its connection string."""
        dsn = self.process.stdout.readline().strip()
        assert dsn.startswith("postgresql://"), f"the user failed with {self.process.wait()}"
        return dsn

    def leave(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def kill_with_children(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        self.process.communicate()


def copy_package(folder: Path, *, top: str = "") -> Path:
    """Put the embedded server alone, under a top package of the test's choice, where every account can read it."""
    library = folder / "lib"
    shutil.copytree(Path(embedded.__file__).parent, library / "ferryman" / "embedded")
    shutil.copy(Path(errors.__file__), library / "ferryman")
    (library / "ferryman" / "__init__.py").write_text(top)
    return library


def waiting_programs(folder: Path, name: str, gate: Path) -> Path:
    """Programs of which one waits until the gate is there: whatever happens before then is no matter of luck."""
    return _programs(folder, name, f'[ "$1" = --version ] || until [ -e {gate} ]; do sleep 0.01; done')


def failing_programs(folder: Path, gate: Path, tries: Path) -> Path:
    """Programs of which `postgres` fails while the gate is there, and leaves a line for each such try."""
    return _programs(folder, "postgres", f"[ ! -e {gate} ] || {{ echo failed >> {tries}; exit 1; }}")


def _programs(folder: Path, name: str, first: str) -> Path:
    """The real programs, one of which does something else first."""
    programs = folder / "programs"
    programs.mkdir(mode=0o755)
    real = usable_by(account_for(folder / "none"), find_binaries(), Deadline.after(DEADLINE_SECONDS)).folder
    for each in ("initdb", "postgres"):
        before = f"{first}\n" if each == name else ""
        (programs / each).write_text(f'#!/bin/sh\n{before}exec {real}/{each} "$@"\n')
        (programs / each).chmod(0o755)
    return programs


def command_lines() -> Iterator[tuple[int, str]]:
    """Of all processes, but for those that have just been forked: they still show what their parent is."""
    lines = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended while we looked
        lines[int(entry.name)] = parent, line
    for pid, (parent, line) in lines.items():
        if line and lines.get(parent, (0, ""))[1] != line:
            yield pid, line


def watchdogs(folder: Path) -> list[int]:
    return [pid for pid, line in command_lines() if "detached.py" in line and f'"{folder}"' in line]


def postmaster(folder: Path) -> int | None:
    return next((pid for pid, line in command_lines() if f"/postgres -D {folder}/data " in line), None)


def running_postmaster(folder: Path) -> int:
    """Of a server that certainly runs."""
    pid = postmaster(folder)
    assert pid is not None
    return pid


def has_backends(folder: Path) -> bool:
    """Any PostgreSQL process of the folder lives, orphans included."""
    return is_locked(ServerFiles(folder).alive)


def kill(*pids: int) -> None:
    """SIGKILL, and wait until it took effect."""
    _send(signal.SIGKILL, *pids)
    until_blocking(lambda: not any(is_running(pid) for pid in pids), "killed processes are gone")


def _send(number: signal.Signals, *pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(pid, number)


def stopped_cleanly(folder: Path) -> bool:
    return (folder / "server.log").read_text().strip().endswith("database system is shut down")


def is_quiet(folder: Path) -> bool:
    """No process of the server or its watchdog is left."""
    return not watchdogs(folder) and not postmaster(folder) and not has_backends(folder)


def until_quiet(folder: Path) -> None:
    until_blocking(lambda: is_quiet(folder), f"no process of {folder} is left")


def end_all(folder: Path) -> None:
    """Leave nothing behind, whatever the test did."""

    def is_ended() -> bool:
        found = watchdogs(folder)
        _send(signal.SIGTERM, *found)
        if not found and (orphan := postmaster(folder)):
            _send(signal.SIGKILL, orphan)
        return is_quiet(folder)

    until_blocking(is_ended, f"the end of all processes of {folder}")
