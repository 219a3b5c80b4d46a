"""The real Graphile Worker, run by the Node that comes in a wheel. Nothing but Python is needed beforehand."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.npm import NODE, installed, npm
from tests.support.waiting import until_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = ("0.16", "0.17", "0.18")
REVISIONS = {"0.16": 18, "0.17": 19, "0.18": 20}

_SOURCE = Path(__file__).parent / "node"
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
    return [str(NODE), str(_SOURCE / "driver.js"), version, command, json.dumps(argument or {})]


def node_script(name: str, *arguments: str) -> list[str]:
    """The command line of another script beside driver.js."""
    return [str(NODE), str(_SOURCE / name), *arguments]


def node_environment(dsn: str) -> dict[str, str]:
    """Where to find the packages, and the database."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    database = {names[key]: str(value) for key, value in conninfo_to_dict(dsn).items() if key in names}
    return {"PATH": os.environ["PATH"], "NODE_PATH": str(packages()), **database}


@cache
def packages() -> Path:
    """The folder with graphile-worker in three versions; filled from the registry once, and kept."""
    lock = (_SOURCE / "package-lock.json").read_bytes()
    return installed(hashlib.sha256(lock).hexdigest()[:16], _install) / "node_modules"


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_SOURCE / name, folder)
    npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
