"""Makes the data folder of a new server.

initdb works in a folder of another name, which is renamed to `data` when it is complete. If initdb is killed, only that
folder is left, and the next start removes it.
"""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

from ferryman.embedded.account import Account
from ferryman.embedded.binaries import ServerBinaries
from ferryman.embedded.locks import FileLock
from ferryman.embedded.paths import ServerFiles
from ferryman.embedded.programs import run_program
from ferryman.errors import EmbeddedServerError

UNFINISHED = "init-"
BUILTIN_LOCALE_MAJOR = 17


def ensure_cluster(files: ServerFiles, binaries: ServerBinaries, account: Account, starting: FileLock) -> None:
    """Create the data folder of a server and its password unless they exist. The caller holds the lock `starting`."""
    _clear_unfinished(files)
    if not files.data.exists():
        _create_cluster(files, binaries, account, starting)
    _check_cluster(files)


def _create_cluster(files: ServerFiles, binaries: ServerBinaries, account: Account, starting: FileLock) -> None:
    password = secrets.token_hex(24)
    _write_secret(files.password, password)
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=files.folder))
    password_file = unfinished.with_suffix(".password")
    _write_secret(password_file, password)
    try:
        account.receive(unfinished)
        account.receive(password_file)
        _run_initdb(unfinished, password_file, binaries, account, starting)
        unfinished.rename(files.data)
        _sync(files.folder)
    finally:
        _clear_unfinished(files)


def _check_cluster(files: ServerFiles) -> None:
    if files.major is None:
        raise EmbeddedServerError(
            f"{files.data} is not a PostgreSQL data folder, so no server was started. Choose another folder."
        )
    if not files.password.exists():
        raise EmbeddedServerError(
            f"{files.data} has no password file beside it: the embedded server did not make it, and leaves it "
            f"alone. Choose another folder."
        )


def _clear_unfinished(files: ServerFiles) -> None:
    for leftover in files.folder.glob(f"{UNFINISHED}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _run_initdb(data: Path, password: Path, binaries: ServerBinaries, account: Account, starting: FileLock) -> None:
    options = [
        f"--pgdata={data}",
        "--username=postgres",
        f"--pwfile={password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        *_locale(binaries.major),
    ]
    # If this process is killed, initdb continues. It inherits the lock, so no other process starts meanwhile.
    outcome = run_program([binaries.folder / "initdb", *options], account, inherits=(starting.descriptor,))
    if outcome.returncode:
        raise EmbeddedServerError(
            f"initdb could not make {data.parent}/data: {outcome.stderr.strip()[-800:]}\n"
            f"No server was started. Remove the cause, then start it again."
        )


def _locale(major: int) -> list[str]:
    # The same sort order on every machine, and none of the operating system's locales needed.
    if major >= BUILTIN_LOCALE_MAJOR:
        return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return ["--locale=C"]


def _write_secret(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
