"""Puts server programs where the account that PostgreSQL runs as can use them.

A virtual environment below /root is closed to every other account. Its programs are then copied, once, to a folder
of root's that everybody may read. A copy whose original is gone is removed when the next one is made.
"""

import hashlib
import shutil
from contextlib import suppress
from dataclasses import replace
from os.path import commonpath
from pathlib import Path

from ferryman.embedded import folders
from ferryman.embedded.account import Account
from ferryman.embedded.binaries import ServerBinaries
from ferryman.embedded.deadline import Deadline
from ferryman.embedded.locks import locked
from ferryman.embedded.postmaster import PROCESSES
from ferryman.embedded.reach import can_run
from ferryman.errors import EmbeddedServerError

NOTE = "copied-from"


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
            _remove_unneeded(shelf)
            _copy(binaries, original, copy)
    return replace(binaries, folder=copy / binaries.folder.relative_to(original), parts=())


def _remove_unneeded(shelf: Path) -> None:
    running = _running_programs()
    if running is None:
        return
    for copy in shelf.glob("*/"):
        is_used = any(program.startswith(f"{copy}/") for program in running)
        if not is_used and not _has_original(copy):
            shutil.rmtree(copy, ignore_errors=True)


def _has_original(copy: Path) -> bool:
    try:
        original, built_at = (copy / NOTE).read_text().splitlines()
        return Path(original).stat().st_mtime_ns == int(built_at)
    except (OSError, ValueError):
        return False  # gone, or replaced; or a copy that was killed


def _running_programs() -> set[str] | None:
    """The programs of all processes; None where the system does not tell."""
    programs = set()
    for process in PROCESSES.glob("[0-9]*/exe"):
        with suppress(OSError):  # it has ended, or is the kernel's own
            programs.add(str(process.readlink()))
    return programs or None


def _copy(binaries: ServerBinaries, original: Path, copy: Path) -> None:
    unfinished = copy.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a copy that was killed: we hold the lock
    for part in binaries.parts:
        shutil.copytree(part, unfinished / part.relative_to(original), symlinks=True)
    program = binaries.folder / "postgres"
    (unfinished / NOTE).write_text(f"{program}\n{program.stat().st_mtime_ns}\n")
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
