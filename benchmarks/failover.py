"""Two PostgreSQL servers for a real failover: a primary, and a standby that can be promoted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg.conninfo import make_conninfo
from tests.support.own_servers import postmaster, quiet_port
from tests.support.waiting import until_blocking

from benchmarks.kill.__main__ import SERVER
from ferryman import SyncClient
from ferryman.embedded import EmbeddedPostgres
from ferryman.embedded.account import account_for
from ferryman.embedded.binaries import find_binaries, usable_by
from ferryman.embedded.locks import Deadline
from ferryman.embedded.programs import run_program

if TYPE_CHECKING:
    from types import TracebackType

SECONDS_TO_START = 60.0


class Pair:
    """Two servers, of which the second follows the first. Both are gone afterwards.

    primary: the address of the first, with the schema installed
    standby: the address of the second
    """

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="ferryman-proof-"))
        self._folder.chmod(0o711)
        self._process: subprocess.Popen[bytes] | None = None
        self._server = EmbeddedPostgres(self._folder / "primary", settings=SERVER, linger=timedelta())
        try:
            self._server.start()
            self.primary = self._server.tcp_dsn
            with SyncClient(self.primary) as client:
                client.migrate()
            self._start_standby()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def follow(self) -> None:
        """Wait until the standby has everything that the primary has now."""
        with psycopg.connect(self.primary, autocommit=True) as first, psycopg.connect(self.standby) as second:
            [position] = first.execute("select pg_current_wal_lsn()").fetchone() or [None]
            second.autocommit = True

            def has_all() -> bool:
                row = second.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", [position]).fetchone()
                return row == (True,)

            until_blocking(has_all, "the standby has caught up")

    def crash(self) -> None:
        """Kill the primary. Its watchdog starts it again, but no client connects to it any more."""
        pid = postmaster(self._server)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def promote(self) -> None:
        """Promote the standby. Returns when it accepts writes."""
        with psycopg.connect(self.standby, autocommit=True) as connection:
            assert connection.execute("select pg_promote()").fetchone() == (True,)

    def _start_standby(self) -> None:
        account = account_for(self._server.folder / "data")
        programs = usable_by(account, find_binaries(), Deadline.after(SECONDS_TO_START)).folder
        data = self._folder / "standby"
        data.mkdir(mode=0o700)
        account.receive(data)
        copied = run_program(
            [programs / "pg_basebackup", "-D", data, "-d", self.primary, "-R", "-X", "stream", "-c", "fast"], account
        )
        assert copied.returncode == 0, copied.stderr
        port = quiet_port()
        self.standby = make_conninfo(self.primary, port=port)
        settings = {**SERVER, "listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": ""}
        with (self._folder / "standby.log").open("wb") as log:
            self._process = subprocess.Popen(
                [programs / "postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                user=account.user,
                group=account.group,
                extra_groups=account.extra_groups,
            )
        until_blocking(self._answers, "the standby answers", within=SECONDS_TO_START)

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self.standby, connect_timeout=5):
            return True
        return False
