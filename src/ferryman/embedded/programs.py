"""Runs the programs of a private PostgreSQL: under the right account, with few environment variables, with a log."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from ferryman.embedded.account import Account
from ferryman.embedded.locks import FileLock
from ferryman.embedded.paths import Place, ServerFiles, WatchdogOptions
from ferryman.errors import EmbeddedServerError

# An allowlist: the server may run under another account, so it must not see what else the caller has in its
# environment (keys, DATABASE_URL); and PG* or LC_* would change what initdb makes.
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "TMPDIR")

# For a laptop that also does other things. The kind of shared memory is left to what initdb found to work.
DEFAULT_SETTINGS = {
    "cluster_name": "ferryman",
    "jit": "off",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "shared_buffers": "64MB",
    "timezone": "UTC",
}
RESERVED_SETTINGS = {
    "data_directory",
    "hba_file",
    "listen_addresses",
    "port",
    "unix_socket_directories",
    "unix_socket_permissions",
}
"""Settings that decide where the server is and who may connect."""

PROCESSES = Path("/proc")
"""Where Linux shows all processes; does not exist on macOS."""

LARGEST_LOG_BYTES = 8 * 1024 * 1024
TAIL_CHARACTERS = 1500


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log of a server, which may run for months. PostgreSQL and the watchdog append to it."""

    path: Path

    def append(self) -> IO[bytes]:
        """Open the log for appending. Only the owner can read it: it may quote statements."""
        return os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")

    def write(self, message: str) -> None:
        """Append a line that the watchdog writes."""
        with self.append() as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC [ferryman] {message}\n".encode())

    def rotate(self) -> None:
        """Move the text to `server.log.1` if the log is larger than 8 MB."""
        if not self.path.exists() or self.path.stat().st_size <= LARGEST_LOG_BYTES:
            return
        # Copied and emptied, not renamed: a running server keeps writing to the file that it was started with. A
        # line that is written meanwhile is lost, and so is the whole text if the disk is full. Both are acceptable.
        with suppress(OSError):
            shutil.copyfile(self.path, self.path.with_suffix(".log.1"))
        with self.path.open("r+b") as file:
            file.truncate()

    def tail(self) -> str:
        """Return the end of the log."""
        if not self.path.exists():
            return "(nothing)"
        return self.path.read_text(errors="replace")[-TAIL_CHARACTERS:].strip()


def bare_environment() -> dict[str, str]:
    """Return the environment variables that a program needs to start, without those that make servers differ."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def run_program(
    command: Sequence[str | Path],
    account: Account | None = None,
    *,
    timeout_seconds: float | None = None,
    inherits: tuple[int, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program and wait until it ends.

    inherits: descriptors, such as locks, that the program keeps open while it runs
    """
    return subprocess.run(  # noqa: S603 - PostgreSQL's own programs, with arguments of ours
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_seconds,
        cwd="/",
        env=bare_environment(),
        pass_fds=inherits,
        user=account.user if account else None,
        group=account.group if account else None,
        extra_groups=account.extra_groups if account else None,
    )


def check_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Check the PostgreSQL settings that a user gave for the private server, and return them as a dict.

    Raises `EmbeddedServerError` for a name that no setting can have, or that Ferryman sets itself.
    """
    for name in settings:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
            raise EmbeddedServerError(
                f"PostgreSQL settings cannot be named {name!r}, so no server was started. Names look like work_mem."
            )
        if name.lower() in RESERVED_SETTINGS:
            raise EmbeddedServerError(
                f"the private PostgreSQL chooses the setting {name!r} itself, so no server was started. Leave it out."
            )
    return dict(settings)


def start_postgres(
    options: WatchdogOptions, account: Account, place: Place, alive: FileLock
) -> subprocess.Popen[bytes]:
    """Start a PostgreSQL server process on existing data.

    The caller holds the lock on `ServerFiles.alive`, and the server inherits it.
    """
    remove_stale_pid_files(options.files, place)
    chosen = DEFAULT_SETTINGS | options.settings | _listening(place)
    arguments = [f"--{name}={value}" for name, value in chosen.items()]
    with LogFile(options.files.log).append() as log:
        return subprocess.Popen(  # noqa: S603 - a program that was probed, with arguments of ours
            [options.programs / "postgres", "-D", options.files.data, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=bare_environment(),
            start_new_session=True,  # a terminal's Ctrl-C is for the program that uses the server
            pass_fds=(alive.descriptor,),
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
        )


def _listening(place: Place) -> dict[str, str]:
    return {
        "listen_addresses": "127.0.0.1",
        "port": str(place.port),
        "unix_socket_directories": place.socket_folder,
        "unix_socket_permissions": "0700",
    }


def remove_stale_pid_files(files: ServerFiles, place: Place) -> None:
    """Remove the pid files of a killed server.

    PostgreSQL uses them to protect data from being opened twice. It would trust them if another process had been given
    the same id since, as happens in containers. The caller holds the lock `alive`, so no process of the server is left.
    """
    for stale in (files.data / "postmaster.pid", Path(place.socket_folder) / f".s.PGSQL.{place.port}.lock"):
        with suppress(FileNotFoundError):
            stale.unlink()
