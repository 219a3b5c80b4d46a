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
from ferryman.embedded.layout import Layout
from ferryman.embedded.locks import is_locked
from tests.embedded.waiting import eventually
from tests.support.processes import is_running

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


def command_lines() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            yield int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue


def watchdogs(folder: Path) -> list[int]:
    return [pid for pid, line in command_lines() if "detached.py" in line and f'"{folder}"' in line]


def postmaster(folder: Path) -> int | None:
    return next((pid for pid, line in command_lines() if f"/postgres -D {folder}/data " in line), None)


def has_backends(folder: Path) -> bool:
    """Any PostgreSQL process of the folder lives, orphans included."""
    return is_locked(Layout(folder).alive)


def kill(*pids: int) -> None:
    """SIGKILL, and wait until it took effect."""
    for pid in pids:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(is_running(pid) for pid in pids))


def stopped_cleanly(folder: Path) -> bool:
    return (folder / "server.log").read_text().strip().endswith("database system is shut down")


def is_quiet(folder: Path) -> bool:
    """No process of the server or its watchdog is left."""
    return not watchdogs(folder) and not postmaster(folder) and not has_backends(folder)


def end_all(folder: Path) -> None:
    """Leave nothing behind, whatever the test did."""
    for pid in watchdogs(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    try:
        eventually(lambda: is_quiet(folder), within=5)
    except AssertionError:
        kill(*filter(None, [*watchdogs(folder), postmaster(folder)]))
