"""Puts server programs where the account that PostgreSQL runs as can use them.

A virtual environment below /root is closed to every other account. Its programs are then copied, once, to a folder
of root's that everybody may read.
"""

import hashlib
import shutil
from dataclasses import replace
from os.path import commonpath
from pathlib import Path

from ferryman.embedded import folders
from ferryman.embedded.account import Account
from ferryman.embedded.binaries import ServerBinaries
from ferryman.embedded.deadline import Deadline
from ferryman.embedded.locks import locked
from ferryman.embedded.reach import can_run
from ferryman.errors import EmbeddedServerError


def within_reach(binaries: ServerBinaries, account: Account, deadline: Deadline) -> ServerBinaries:
    """The same programs, from a place where the account can run them."""
    if not account.is_borrowed or can_run(binaries.folder / "postgres", account):
        return binaries
    copied = _copied(binaries, account, deadline) if binaries.parts else None
    if copied and can_run(copied.folder / "postgres", account):
        return copied
    raise EmbeddedServerError(
        f"as root, PostgreSQL runs as {account.name!r}, which cannot run the programs in {binaries.folder}. "
        "Install them where every account can reach them."
    )


def _copied(binaries: ServerBinaries, account: Account, deadline: Deadline) -> ServerBinaries:
    shelf = folders.OF_ROOT / "programs"
    folders.prepare_folder(shelf, account)
    original = Path(commonpath([part.parent for part in binaries.parts]))
    copy = shelf / _name(binaries)
    with locked(shelf / "copying.lock", deadline):
        if not copy.exists():
            _copy(binaries.parts, original, copy)
    return replace(binaries, folder=copy / binaries.folder.relative_to(original), parts=())


def _copy(parts: tuple[Path, ...], original: Path, copy: Path) -> None:
    unfinished = copy.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a copy that was killed: we hold the lock
    for part in parts:
        shutil.copytree(part, unfinished / part.relative_to(original), symlinks=True)
    for path in (unfinished, *unfinished.rglob("*")):
        _open_to_all(path)
    unfinished.rename(copy)


def _open_to_all(path: Path) -> None:
    # The original may have been installed under a tight umask.
    if path.is_symlink():
        return
    is_executable = path.is_dir() or path.stat().st_mode & 0o100
    path.chmod(0o755 if is_executable else 0o644)


def _name(binaries: ServerBinaries) -> str:
    # The time is part of the name: a wheel that was replaced in the same place is copied again.
    built_at = (binaries.folder / "postgres").stat().st_mtime_ns
    return hashlib.sha256(f"{binaries.folder} {binaries.version} {built_at}".encode()).hexdigest()[:16]
