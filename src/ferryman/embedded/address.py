"""How to connect to a running server."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Address:
    """The connection strings, which carry the password; `repr` does not."""

    socket_folder: Path | None
    port: int
    password: str = field(repr=False)

    @property
    def dsn(self) -> str:
        """By Unix socket; by TCP where this process cannot reach the socket."""
        if self.socket_folder is None:
            return self.tcp_dsn
        return f"postgresql://postgres:{self.password}@/postgres?host={self.socket_folder}&port={self.port}"

    @property
    def tcp_dsn(self) -> str:
        """By TCP, on this machine only."""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"
