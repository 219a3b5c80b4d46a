"""Starts the PostgreSQL process itself."""

import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ferryman.embedded.account import Account
from ferryman.embedded.layout import Layout
from ferryman.embedded.locks import FileLock
from ferryman.embedded.logfile import LogFile
from ferryman.embedded.orders import WatchOrders
from ferryman.embedded.place import Place
from ferryman.embedded.programs import bare_environment
from ferryman.errors import EmbeddedServerError

# For a laptop that also does other things. Shared memory's kind is left to what initdb found to work.
DEFAULTS = {
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
OURS = {"data_directory", "hba_file", "listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions"}


def check_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Refuse names that are no names, and settings that decide where the server is and who may enter."""
    for name in settings:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
            raise EmbeddedServerError(f"{name!r} is not the name of a PostgreSQL setting")
        if name.lower() in OURS:
            raise EmbeddedServerError(f"the setting {name!r} is chosen by the embedded server itself")
    return dict(settings)


def spawn_postgres(orders: WatchOrders, account: Account, place: Place, alive: FileLock) -> subprocess.Popen[bytes]:
    """Start a server that nobody else has running: the caller holds `alive`, and the server inherits it."""
    forget_dead_server(orders.layout, place)
    chosen = DEFAULTS | orders.settings | _listening(place)
    options = [f"--{name}={value}" for name, value in chosen.items()]
    with LogFile(orders.layout.log).append() as log:
        return subprocess.Popen(  # noqa: S603 - a program that was probed, with arguments of ours
            [orders.programs / "postgres", "-D", orders.layout.data, *options],
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


def forget_dead_server(layout: Layout, place: Place) -> None:
    """Remove the pid files of a killed server.

    PostgreSQL would believe them if another process was given the id since, as happens in containers. It uses them
    to protect data from being opened twice; whoever holds `alive` knows that no process of our server is left.
    """
    for stale in (layout.data / "postmaster.pid", Path(place.socket_folder) / f".s.PGSQL.{place.port}.lock"):
        with suppress(FileNotFoundError):
            stale.unlink()
