"""A private PostgreSQL server, shared by the processes that use it and stopped after the last."""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from ferryman.embedded.account import Account, account_for
from ferryman.embedded.address import Address
from ferryman.embedded.binaries import ServerBinaries, find_binaries, fitting
from ferryman.embedded.cluster import ensure_cluster
from ferryman.embedded.deadline import Deadline
from ferryman.embedded.folders import check_vacancy, folder_of_dsn, prepare_folder, refuse_windows
from ferryman.embedded.launch import launch_watchdog
from ferryman.embedded.layout import Layout
from ferryman.embedded.locks import FileLock, locked, try_lock, wait_for_lock
from ferryman.embedded.orders import WatchOrders
from ferryman.embedded.parting import stop_unless_used
from ferryman.embedded.postmaster import Postmaster, read_postmaster
from ferryman.embedded.shelf import within_reach
from ferryman.embedded.spawn import check_settings
from ferryman.errors import EmbeddedServerError

LINGER = timedelta(seconds=2)
START_SECONDS = 180.0  # a slow disk takes a minute for initdb, and another process may be at it before us
CLOSE_SECONDS = 60.0  # longer than a watchdog is patient with a server that does not stop
POLL_SECONDS = 0.01


class EmbeddedPostgres:
    """A PostgreSQL server in a folder, started by its first user and stopped `linger` after its last.

    Any number of processes may use one folder; they share one server. It runs as long as one of them does,
    however they end, and is started again if it is killed. With `linger` zero, the last user to close it waits until it
    has stopped, after which the folder may be removed. `settings` are PostgreSQL settings for the server; they count
    for the process that starts it.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        binaries: ServerBinaries | str | Path | None = None,
        linger: timedelta = LINGER,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        # Resolved: every user must call the folder, and so its server, by the same name.
        self._layout = Layout(Path(os.path.expanduser(folder)).resolve())  # noqa: PTH111 - "~" may lead nowhere
        self._binaries = binaries
        self._linger = linger
        self._settings = check_settings(settings or {})
        self._lease: FileLock | None = None
        self._address: Address | None = None

    @classmethod
    def from_dsn(
        cls,
        dsn: str,
        *,
        binaries: ServerBinaries | str | Path | None = None,
        linger: timedelta = LINGER,
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """The server of `embedded:` (the default folder), `embedded:relative`, `embedded:/absolute`."""
        return cls(folder_of_dsn(dsn), binaries=binaries, linger=linger, settings=settings)

    @property
    def folder(self) -> Path:
        """Everything of this server: its data, its password, its log."""
        return self._layout.folder

    @property
    def dsn(self) -> str:
        """The connection string for this machine's processes: a Unix socket, where there is one. It carries the
        password.
        """
        return self._started_address().dsn

    @property
    def tcp_dsn(self) -> str:
        """The same server on 127.0.0.1, for programs that want TCP. It carries the password."""
        return self._started_address().tcp_dsn

    def start(self) -> Self:
        """Make, start or join the server; return when it takes connections. Twice is once."""
        refuse_windows()
        if self._lease is None:
            try:
                self._join(Deadline.after(START_SECONDS))
            except OSError as problem:
                raise EmbeddedServerError(f"cannot run PostgreSQL in {self.folder}: {problem}") from problem
        return self

    def close(self) -> None:
        """Give the server up; it stops when nobody else uses it. Twice is once."""
        if self._lease is None:
            return
        try:
            self._replace_killed_watchdog()
        finally:
            self._lease.close()
            self._lease = self._address = None
        if not self._linger:
            self._stop_unless_used()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "started" if self._lease else "not started"
        return f"<EmbeddedPostgres in {self.folder}, {state}>"

    def _started_address(self) -> Address:
        if self._address is None:
            raise EmbeddedServerError(f"the server in {self.folder} is not started: use `with`, or call start()")
        return self._address

    def _join(self, deadline: Deadline) -> None:
        account = account_for(self._layout.data)
        prepare_folder(self.folder, account)
        check_vacancy(self._layout)
        lease = wait_for_lock(self._layout.leases, deadline, shared=True)  # waits while a server is being stopped
        try:
            with locked(self._layout.starting, deadline) as starting:
                server = self._running_server(account, starting, deadline)
                # Another mount namespace, such as systemd's PrivateTmp, has another /tmp.
                socket_folder = server.socket_folder if server.accepts else None
                self._address = Address(socket_folder, server.port, self._layout.password.read_text())
        except BaseException:
            lease.close()
            raise
        self._lease = lease

    def _running_server(self, account: Account, starting: FileLock, deadline: Deadline) -> Postmaster:
        for _ in deadline.ticks(POLL_SECONDS):
            if watch := try_lock(self._layout.watched):
                self._start_watchdog(watch, account, starting, deadline)
            server = read_postmaster(self._layout.data)
            if server and (server.accepts or self._is_without_socket(server)):
                return server
        raise EmbeddedServerError(f"the server in {self.folder} did not become ready; see {self._layout.log}")

    def _is_without_socket(self, server: Postmaster) -> bool:
        return not server.has_socket and server.accepts_at_port(self._layout.data)

    def _start_watchdog(self, watch: FileLock, account: Account, starting: FileLock, deadline: Deadline) -> None:
        try:
            binaries = within_reach(self._fitting_binaries(), account, deadline)
            ensure_cluster(self._layout, binaries, account, starting)
            launch_watchdog(self._orders(binaries, watch), deadline)
        finally:
            watch.close()

    def _orders(self, binaries: ServerBinaries, watch: FileLock) -> WatchOrders:
        return WatchOrders(
            folder=self.folder,
            programs=binaries.folder,
            linger_seconds=self._linger.total_seconds(),
            settings=self._settings,
            lock=watch.descriptor,
        )

    def _fitting_binaries(self) -> ServerBinaries:
        major = self._layout.major
        try:
            if isinstance(self._binaries, ServerBinaries):
                return fitting(self._binaries, major)
            return find_binaries(self._binaries, major=major)
        except EmbeddedServerError as problem:
            if major is None:
                raise
            raise EmbeddedServerError(
                f"{self._layout.data} was made by PostgreSQL {major}, and only that version can open it: {problem}"
            ) from None

    def _replace_killed_watchdog(self) -> None:
        # Without one, nobody would stop the server after us. If that fails too, we have done what we could.
        with suppress(EmbeddedServerError, OSError):
            deadline = Deadline.after(CLOSE_SECONDS)
            if watch := try_lock(self._layout.watched):
                watch.close()
                with locked(self._layout.starting, deadline) as starting:
                    self._running_server(account_for(self._layout.data), starting, deadline)

    def _stop_unless_used(self) -> None:
        # The watchdog would do so as well, in its own time.
        with suppress(EmbeddedServerError, OSError):
            stop_unless_used(self._layout, Deadline.after(CLOSE_SECONDS))
