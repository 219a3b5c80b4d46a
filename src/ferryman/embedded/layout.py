"""What lies where in the folder of an embedded server."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one folder. Only `data` belongs to the account that PostgreSQL runs as."""

    folder: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's own data folder; complete if it exists at all."""
        return self.folder / "data"

    @property
    def password(self) -> Path:
        """The superuser's password, readable by the owner only."""
        return self.folder / "password"

    @property
    def place(self) -> Path:
        """Where the server listened last, so that connection strings stay the same from run to run."""
        return self.folder / "place.json"

    @property
    def log(self) -> Path:
        """What PostgreSQL and its watchdog have to say."""
        return self.folder / "server.log"

    @property
    def leases(self) -> Path:
        """Locked, shared, by every process that uses the server."""
        return self.folder / "leases.lock"

    @property
    def starting(self) -> Path:
        """Locked by the one process that makes or starts the server, and by the initdb that it runs."""
        return self.folder / "starting.lock"

    @property
    def watched(self) -> Path:
        """Locked by the watchdog, all its life; tells its process id."""
        return self.folder / "watched.lock"

    @property
    def alive(self) -> Path:
        """Locked by every PostgreSQL process of this folder, orphaned backends included."""
        return self.folder / "alive.lock"

    @property
    def major(self) -> int | None:
        """The PostgreSQL major version that made the data; None when there is no such data."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
