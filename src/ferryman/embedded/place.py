"""Where a server listens: a free port, and a private folder for its socket."""

import json
import os
import socket
import stat
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from ferryman.embedded.account import Account
from ferryman.embedded.layout import Layout

# Not $TMPDIR and not the data folder: the path of a socket may be no longer than 104 bytes on macOS.
SOCKETS = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - only ever a fresh, private folder in them


@dataclass(frozen=True, slots=True)
class Place:
    """The two addresses of a server."""

    port: int
    socket_folder: str


def choose_place(layout: Layout, account: Account) -> Place:
    """Take the place of the last run if it is still free, so that connection strings stay valid; else a new one."""
    last = read_place(layout)
    port = last.port if last and _is_free(last.port) else _free_port()
    folder = last.socket_folder if last and _claim(Path(last.socket_folder), account) else _new_folder(account)
    place = Place(port, folder)
    _write_place(layout, place)
    return place


def read_place(layout: Layout) -> Place | None:
    """Where the server listened last, or listens now."""
    try:
        return Place(**json.loads(layout.place.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write_place(layout: Layout, place: Place) -> None:
    draft = layout.place.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(place)))
    draft.replace(layout.place)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _new_folder(account: Account) -> str:
    parent = next((each for each in SOCKETS if os.access(each, os.W_OK | os.X_OK)), SOCKETS[0])
    folder = Path(tempfile.mkdtemp(prefix="ferryman-", dir=parent))
    account.own(folder)
    return str(folder)


def _claim(folder: Path, account: Account) -> bool:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return _is_private(folder, account)
    except OSError:
        return False
    account.own(folder)
    return True


def _is_private(folder: Path, account: Account) -> bool:
    # Anybody may create names in /tmp: a folder that is not the server's own is left alone.
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and not found.st_mode & 0o077
