"""The command `python -m benchmarks.kill`; the package's docstring explains it."""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import ferryman
from benchmarks.kill import checker, report
from benchmarks.kill.directing import Stage, run_kills
from benchmarks.kill.plan import digest
from benchmarks.kill.poisoning import judge_poison, run_poison
from benchmarks.kill.zombies import run_zombies
from ferryman import SyncClient
from ferryman.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.history import Line

    from benchmarks.kill.checker import Verdict

BEGINNING = b'{"event": "'
"""Of every line of a history."""

SERVER = {"fsync": "off", "max_connections": "300", "log_line_prefix": "%m [%p] %d "}
"""Workers are killed here, not servers: PostgreSQL need not survive a power cut."""


def main() -> int:
    options = _options()
    if options.judge is not None:
        return _judge(options.judge)
    if options.database_url is None:
        return again_with_server("benchmarks.kill")
    parts: list[tuple[str, Callable[[Stage], None]]] = []
    if options.kills:
        title = f"{options.kills:,} kills, seed {options.seed}, plan {digest(options.seed, options.kills)}"
        parts.append((title, lambda stage: run_kills(stage, kills=options.kills, seed=options.seed)))
    if options.deaths:
        title = f"{options.deaths:,} deaths by {options.poison:.0%} poisonous jobs, seed {options.seed}"
        poison = functools.partial(
            run_poison,
            deaths=options.deaths,
            share=options.poison,
            concurrency=options.concurrency,
            seed=options.seed,
        )
        parts.append((title, poison))
    if options.zombies:
        title = f"{options.zombies:,} zombies, seed {options.seed}"
        parts.append((title, lambda stage: run_zombies(stage, rounds=options.zombies, seed=options.seed)))
    return max([perform(title, part, _judge, options) for title, part in parts], default=0)


def again_with_server(module: str) -> int:
    """Run the program again on a private server. This process owns it, and may have threads; the other one forks.

    The other one is a process group of its own. When the shell exits that has started us, the kernel sends SIGHUP and
    SIGCONT to our group if a process in it is frozen: workers would shut down that were not told to.
    """
    signal.signal(signal.SIGINT, lambda *_: None)
    with private_server() as dsn:
        command = [sys.executable, "-m", module, *sys.argv[1:], "--database-url", dsn]
        with subprocess.Popen(command, process_group=0) as program:
            signal.signal(signal.SIGINT, lambda *_: program.send_signal(signal.SIGINT))
            return program.wait()


def perform(
    title: str, part: Callable[[Stage], None], judge: Callable[[Path], int], options: argparse.Namespace
) -> int:
    """Run one part of the test in a database of its own, and judge it."""
    with _folder(options.keep) as folder, fresh_database(options.database_url) as dsn:
        stage = Stage.set_up(dsn, folder, lambda text: print(text, file=sys.stderr, flush=True))
        signal.signal(signal.SIGINT, lambda *_: setattr(stage, "is_stopped", True))
        stage.recorder.note("plan", title=f"{title}\n{_versions(stage)}")
        gc.freeze()
        part(stage)
        if stage.is_stopped:
            stage.recorder.note("plan", title="stopped early")
        return judge(folder)


def _versions(stage: Stage) -> str:
    ours, python = ferryman.__version__, platform.python_version()
    return f"ferryman {ours}, Python {python}, PostgreSQL {stage.looking.server_version()}"


def _judge(folder: Path) -> int:
    lines = read_history(folder)
    if any(line["event"] == "poisonous" for line in lines):
        return _pronounce_poison(lines)
    # Without kills, every frozen worker was thawed and had time to notice.
    is_about_zombies = not any(line["event"] == "killing" for line in lines)
    return pronounce(checker.judge(lines, thawed_are_refused=is_about_zombies), lines)


def _pronounce_poison(lines: list[Line]) -> int:
    told, breaches = judge_poison(lines)
    verdict = checker.judge(lines)
    code = pronounce(verdict, lines)
    print(told)
    for breach in breaches:
        print(f"BREACH: {breach.text}")
    return max(code, 1 if breaches else 0)


def pronounce(verdict: Verdict, lines: list[Line]) -> int:
    """Print the verdict, and return the exit code."""
    print(report.render(verdict))
    report.print_stories(verdict, lines)
    return 1 if verdict.breaches else 0


def read_history(folder: Path) -> list[Line]:
    return [_whole(line) for line in (folder / "history.jsonl").read_bytes().splitlines()]


def _whole(line: bytes) -> Line:
    """Return the complete line: a process killed in the middle of a write leaves half of one before the next.

    What the half would have told is lost with the process, which nobody can tell from a kill just before the write.
    """
    try:
        whole: Line = json.loads(line)
    except json.JSONDecodeError:
        whole = json.loads(line[line.rindex(BEGINNING) :])
    return whole


@contextmanager
def fresh_database(dsn: str, name: str = "ferryman_proof") -> Iterator[str]:
    """Make a database on this server, with the schema installed, and drop it afterwards."""
    name = f"{name}_{os.getpid()}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
    try:
        own = make_conninfo(dsn, dbname=name)
        with SyncClient(own) as client:
            client.migrate()
        yield own
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def private_server(*, by_tcp: bool = False) -> Iterator[str]:
    """Start a private server, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="ferryman-proof-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        with EmbeddedPostgres(folder / "postgres", settings=SERVER, linger=timedelta()) as server:
            yield server.tcp_dsn if by_tcp else server.dsn


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(dir=keep))
        return
    with tempfile.TemporaryDirectory(prefix="ferryman-proof-") as name:
        yield Path(name)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kill workers, and check that nothing goes wrong.")
    parser.add_argument("--kills", type=int, default=200, help="how many worker processes to kill (default: 200)")
    parser.add_argument("--zombies", type=int, default=0, help="how many to freeze, sweep and thaw (default: 0)")
    parser.add_argument("--deaths", type=int, default=0, help="how many workers poisonous jobs shall kill (default: 0)")
    parser.add_argument("--poison", type=float, default=0.05, help="the share of poisonous jobs (default: 0.05)")
    parser.add_argument("--concurrency", type=int, default=20, help="slots of workers beside poison (default: 20)")
    add_usual_options(parser)
    return parser.parse_args()


def add_usual_options(parser: argparse.ArgumentParser) -> None:
    """Add the command-line options that every such test has."""
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same plan (default: 1)")
    parser.add_argument(
        "--database-url", help="a server to use instead of a private one; a database is made there, and dropped"
    )
    parser.add_argument("--keep", type=Path, help="a folder to keep the histories in")
    parser.add_argument("--judge", type=Path, help="do nothing but judge a history that was kept in this folder")


if __name__ == "__main__":
    sys.exit(main())
