"""The files of a private PostgreSQL server, the port and socket at which it listens, and its connection strings."""

import json
import os
import socket
import stat
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from ferryman.embedded.account import Account

# Neither $TMPDIR nor the data folder: on macOS the path of a socket has at most 104 bytes.
SOCKETS = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - only ever a fresh, private folder in them


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of a private PostgreSQL server, all below one folder.

    Only `data` belongs to the account that runs PostgreSQL.
    """

    folder: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's own data folder. If it exists, it is complete."""
        return self.folder / "data"

    @property
    def password(self) -> Path:
        """The superuser's password, readable by the owner only."""
        return self.folder / "password"

    @property
    def place(self) -> Path:
        """A JSON file with the port and the socket folder of the last run, so that connection strings stay the same."""
        return self.folder / "place.json"

    @property
    def log(self) -> Path:
        """The log of PostgreSQL and of its watchdog."""
        return self.folder / "server.log"

    @property
    def leases(self) -> Path:
        """A lock file on which every process that uses the server holds a shared lock."""
        return self.folder / "leases.lock"

    @property
    def starting(self) -> Path:
        """A lock file that lets only one process at a time, or the initdb that it runs, create or start the server."""
        return self.folder / "starting.lock"

    @property
    def watched(self) -> Path:
        """A lock file that the watchdog keeps locked for as long as it runs. Contains the watchdog's process id."""
        return self.folder / "watched.lock"

    @property
    def alive(self) -> Path:
        """A lock file that shows whether any PostgreSQL process of this folder is left, orphaned backends included."""
        return self.folder / "alive.lock"

    @property
    def major(self) -> int | None:
        """The major version of the PostgreSQL that created the data; None if there is no data yet."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens: a port of this machine, and a private folder for its socket."""

    # The names of the fields are keys in place.json.
    port: int
    socket_folder: str


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """How to connect to a running server. The connection strings carry the password; `repr` does not."""

    socket_folder: Path | None
    port: int
    password: str = field(repr=False)

    @property
    def dsn(self) -> str:
        """The connection string of the Unix socket; of TCP if this process cannot reach the socket."""
        if self.socket_folder is None:
            return self.tcp_dsn
        return f"postgresql://postgres:{self.password}@/postgres?host={self.socket_folder}&port={self.port}"

    @property
    def tcp_dsn(self) -> str:
        """The connection string of the TCP port, which is open on this machine only."""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogOptions:
    """The options of a watchdog: the process that keeps a private server running, and stops it after its last user.

    They travel on its command line, which `ps` shows, so they contain no secrets.

    folder: the server's folder, see `ServerFiles`
    programs: the folder with PostgreSQL's programs
    linger_seconds: how long the server keeps running after its last user has closed it
    settings: PostgreSQL settings that the user has chosen
    lock: the descriptor of `ServerFiles.watched`, open and locked, which the watchdog inherits
    """

    folder: Path
    programs: Path
    linger_seconds: float
    settings: dict[str, str]
    lock: int

    @property
    def files(self) -> ServerFiles:
        """The files of the server."""
        return ServerFiles(self.folder)

    def to_json(self) -> str:
        """Return the options as one argument of a command line."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Make options of the JSON text that `to_json` returned."""
        values = json.loads(text)
        return cls(**values | {"folder": Path(values["folder"]), "programs": Path(values["programs"])})


def choose_place(files: ServerFiles, account: Account) -> Place:
    """Choose the port and the socket folder for a server: those of its last run if still free, else new ones.

    Connection strings then stay valid from run to run.
    """
    last = read_place(files)
    port = last.port if last and _is_free(last.port) else _free_port()
    folder = last.socket_folder if last and _make_private(Path(last.socket_folder), account) else _new_folder(account)
    place = Place(port, folder)
    _write_place(files, place)
    return place


def read_place(files: ServerFiles) -> Place | None:
    """Return the port and the socket folder of the running server or of its last run; None if they are not known."""
    try:
        return Place(**json.loads(files.place.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write_place(files: ServerFiles, place: Place) -> None:
    draft = files.place.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(place)))
    draft.replace(files.place)


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
    account.receive(folder)
    return str(folder)


def _make_private(folder: Path, account: Account) -> bool:
    """Create a folder that only the account can use, or accept one that exists.

    Returns False if it cannot be created, or if others have access to it.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return _is_private(folder, account)
    except OSError:
        return False
    account.receive(folder)
    return True


def _is_private(folder: Path, account: Account) -> bool:
    # Every user may create names in /tmp: a folder that is not the server's own is not used.
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and not found.st_mode & 0o077
