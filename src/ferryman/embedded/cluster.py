"""Makes the data of a new server.

Everything is made beside its final place and renamed into it, so that a folder called `data` is always complete:
an initdb that is killed at any moment leaves only rubbish, which the next start clears away.
"""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

from ferryman.embedded.account import Account
from ferryman.embedded.binaries import ServerBinaries
from ferryman.embedded.layout import Layout
from ferryman.embedded.locks import FileLock
from ferryman.embedded.programs import run_program
from ferryman.errors import EmbeddedServerError

UNFINISHED = "init-"
BUILTIN_LOCALE_MAJOR = 17


def ensure_cluster(layout: Layout, binaries: ServerBinaries, account: Account, starting: FileLock) -> None:
    """Make the data folder and the password unless they exist. The caller holds `starting`."""
    _clear_unfinished(layout)
    if not layout.data.exists():
        _create_cluster(layout, binaries, account, starting)
    _check_cluster(layout)


def _create_cluster(layout: Layout, binaries: ServerBinaries, account: Account, starting: FileLock) -> None:
    password = secrets.token_hex(24)
    _write_secret(layout.password, password)
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=layout.folder))
    handed_over = unfinished.with_suffix(".password")
    _write_secret(handed_over, password)
    try:
        account.own(unfinished)
        account.own(handed_over)
        _run_initdb(unfinished, handed_over, binaries, account, starting)
        unfinished.rename(layout.data)
        _sync(layout.folder)
    finally:
        _clear_unfinished(layout)


def _check_cluster(layout: Layout) -> None:
    if layout.major is None:
        raise EmbeddedServerError(f"{layout.data} is no PostgreSQL data folder; choose another folder")
    if not layout.password.exists():
        raise EmbeddedServerError(f"{layout.data} has no password beside it: it was not made by the embedded server")


def _clear_unfinished(layout: Layout) -> None:
    for leftover in layout.folder.glob(f"{UNFINISHED}*"):
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
    # If this process is killed, initdb goes on, and nobody else may start until it has ended.
    outcome = run_program([binaries.folder / "initdb", *options], account, inherits=(starting.descriptor,))
    if outcome.returncode:
        raise EmbeddedServerError(f"initdb could not make {data.parent}/data: {outcome.stderr.strip()[-800:]}")


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
