"""A private PostgreSQL server: started by the first process that uses it, and stopped after the last."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from ferryman.embedded.account import Account, account_for
from ferryman.embedded.binaries import ServerBinaries, check_version, find_binaries, usable_by
from ferryman.embedded.cluster import ensure_cluster
from ferryman.embedded.folders import check_vacancy, folder_of_dsn, prepare_folder, refuse_windows
from ferryman.embedded.launch import launch_watchdog
from ferryman.embedded.locks import RETRY_SECONDS, Deadline, FileLock, is_locked, locked, try_lock, wait_for_lock
from ferryman.embedded.paths import ServerAddress, ServerFiles, WatchdogOptions
from ferryman.embedded.postmaster import Postmaster, read_postmaster
from ferryman.embedded.programs import check_settings
from ferryman.errors import EmbeddedServerError

LINGER = timedelta(seconds=2)
START_SECONDS = 180.0  # initdb takes a minute on a slow disk, and another process may run it before us
CLOSE_SECONDS = 60.0  # longer than a watchdog waits for a server that does not stop
POLL_SECONDS = 0.01


class EmbeddedPostgres:
    """A PostgreSQL server in a folder, started by the first process that uses it and stopped after the last.

    Any number of processes can use one folder. They share one server, which runs until the last of them has ended or
    closed it, and is started again if it is killed.

    folder: where the server keeps its data, its password and its log
    binaries: the programs to run, or their folder; found by `find_binaries` if left out
    linger: how long the server keeps running after its last user. With zero, the last user to close it waits until it
        has stopped; the folder may be removed then.
    settings: PostgreSQL settings, used if this process is the one that starts the server
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        binaries: ServerBinaries | str | Path | None = None,
        linger: timedelta = LINGER,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        # Resolved: all users must know the folder, and so its server, by the same name.
        self._files = ServerFiles(Path(os.path.expanduser(folder)).resolve())  # noqa: PTH111 - the user may have no home
        self._binaries = binaries
        self._linger = linger
        self._settings = check_settings(settings or {})
        self._lease: FileLock | None = None
        self._address: ServerAddress | None = None

    @classmethod
    def from_dsn(
        cls,
        dsn: str,
        *,
        binaries: ServerBinaries | str | Path | None = None,
        linger: timedelta = LINGER,
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the server of `embedded:` (the default folder), `embedded:relative` or `embedded:/absolute`."""
        return cls(folder_of_dsn(dsn), binaries=binaries, linger=linger, settings=settings)

    @property
    def folder(self) -> Path:
        """The folder that contains all of this server: its data, its password, its log."""
        return self._files.folder

    @property
    def dsn(self) -> str:
        """The connection string for programs on this machine: of the Unix socket, or of TCP where this process
        cannot see the socket. It contains the password.
        """
        return self._started_address().dsn

    @property
    def tcp_dsn(self) -> str:
        """The connection string of the same server on 127.0.0.1. It contains the password."""
        return self._started_address().tcp_dsn

    def start(self) -> Self:
        """Create or start the server, or use the one that runs. Returns when it accepts connections.

        Does nothing if called again.
        """
        refuse_windows()
        if self._lease is None:
            try:
                self._join(Deadline.after(START_SECONDS))
            except OSError as problem:
                raise EmbeddedServerError(
                    f"cannot run PostgreSQL in {self.folder}: {problem}. Remove the cause, or choose another folder."
                ) from problem
        return self

    def close(self) -> None:
        """Stop using the server. It stops if no other process uses it. Does nothing if called again."""
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

    def _started_address(self) -> ServerAddress:
        if self._address is None:
            raise EmbeddedServerError(
                f"the server in {self.folder} is not started, so it has no address yet. Use `with`, or start()."
            )
        return self._address

    def _join(self, deadline: Deadline) -> None:
        account = account_for(self._files.data)
        prepare_folder(self.folder, account)
        check_vacancy(self._files)
        lease = wait_for_lock(self._files.leases, deadline, shared=True)  # waits while a server is being stopped
        try:
            with locked(self._files.starting, deadline) as starting:
                server = self._running_server(account, starting, deadline)
                # Another mount namespace, such as systemd's PrivateTmp, has another /tmp.
                socket_folder = server.socket_folder if server.accepts else None
                self._address = ServerAddress(socket_folder, server.port, self._files.password.read_text())
        except BaseException:
            lease.close()
            raise
        self._lease = lease

    def _running_server(self, account: Account, starting: FileLock, deadline: Deadline) -> Postmaster:
        for _ in deadline.ticks(POLL_SECONDS):
            if watch := try_lock(self._files.watched):
                self._start_watchdog(watch, account, starting, deadline)
            server = read_postmaster(self._files.data)
            if server and (server.accepts or self._is_without_socket(server)):
                return server
        raise EmbeddedServerError(
            f"the server in {self.folder} did not become ready in time. Read {self._files.log}, then start it again."
        )

    def _is_without_socket(self, server: Postmaster) -> bool:
        return not server.has_socket and server.accepts_at_port(self._files.data)

    def _start_watchdog(self, watch: FileLock, account: Account, starting: FileLock, deadline: Deadline) -> None:
        try:
            binaries = usable_by(account, self._find_binaries(), deadline)
            ensure_cluster(self._files, binaries, account, starting)
            launch_watchdog(self._watchdog_options(binaries, watch), deadline)
        finally:
            watch.close()

    def _watchdog_options(self, binaries: ServerBinaries, watch: FileLock) -> WatchdogOptions:
        return WatchdogOptions(
            folder=self.folder,
            programs=binaries.folder,
            linger_seconds=self._linger.total_seconds(),
            settings=self._settings,
            lock=watch.descriptor,
        )

    def _find_binaries(self) -> ServerBinaries:
        major = self._files.major
        try:
            if isinstance(self._binaries, ServerBinaries):
                return check_version(self._binaries, major)
            return find_binaries(self._binaries, major=major)
        except EmbeddedServerError as problem:
            if major is None:
                raise
            raise EmbeddedServerError(
                f"{self._files.data} was made by PostgreSQL {major}, and only that version can open it: {problem}"
            ) from None

    def _replace_killed_watchdog(self) -> None:
        # Without a watchdog, the server would run on after its last user. If this fails too, nothing more can be done.
        with suppress(EmbeddedServerError, OSError):
            deadline = Deadline.after(CLOSE_SECONDS)
            if watch := try_lock(self._files.watched):
                watch.close()
                with locked(self._files.starting, deadline) as starting:
                    self._running_server(account_for(self._files.data), starting, deadline)

    def _stop_unless_used(self) -> None:
        # The watchdog would do so as well, in its own time.
        with suppress(EmbeddedServerError, OSError):
            _stop_unless_used(self._files, Deadline.after(CLOSE_SECONDS))


def _stop_unless_used(files: ServerFiles, deadline: Deadline) -> None:
    """Have the watchdog stop the server, and wait until it has. Does nothing if another process uses the server."""
    for _ in deadline.ticks(RETRY_SECONDS):
        if lease := try_lock(files.leases):
            try:
                _dismiss_watchdog(files)
                wait_for_lock(files.watched, deadline).close()
            finally:
                lease.close()
            return
        # A watchdog that stops the server keeps the lock until the end. One that only looks has it for a moment.
        if _is_used(files) or not is_locked(files.watched):
            return


def _is_used(files: ServerFiles) -> bool:
    # Users share their lock; a watchdog that is stopping the server does not.
    lease = try_lock(files.leases, shared=True)
    if lease:
        lease.close()
    return lease is not None


def _dismiss_watchdog(files: ServerFiles) -> None:
    if not is_locked(files.watched):
        return  # it has ended, and its id may be another's
    with suppress(ValueError, ProcessLookupError):
        os.kill(int(files.watched.read_text()), signal.SIGTERM)
