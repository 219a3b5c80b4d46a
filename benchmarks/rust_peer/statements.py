"""Reads from the server's log what the crate sends, and compares it with the statements that `make test` replays."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from benchmarks.rust_peer.workers import RUST_NAME, wait_for
from ferryman import SyncClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.rust_peer.checks import Maker, Stage

RECORDED = Path(__file__).parents[2] / "tests" / "interop" / "rust_statements.json"
LOG_PREFIX = "%d|%a|"
_ENTRY = re.compile(rf"^(?P<database>\w+)\|{RUST_NAME}\|LOG:  (?:statement|execute [^:]+): (?P<text>.*)$")
_STALE = """
    insert into graphile_worker._private_workers (id, last_heartbeat_at) values ('gone', now() - interval '1 hour');
    update graphile_worker._private_jobs set locked_by = 'gone', locked_at = now() - interval '1 hour'
    where id = (select max(id) from graphile_worker._private_jobs);
"""


def sent_statements(maker: Maker, log: Path) -> list[str]:
    """Return every statement of a worker, with and without a local queue, and of the utilities, without migrations."""
    stage = maker.stage("statements")
    with SyncClient(stage.url) as client:
        client.migrate()
    stage.rust.run("migrate")
    with psycopg.connect(stage.url, autocommit=True) as connection:
        connection.execute("alter database statements set log_statement = 'all'")
    stage.rust.run("manage")
    _work(stage)
    _work(stage, local_queue=10)
    return sorted(_logged(log, "statements"))


def _work(stage: Stage, **settings: object) -> None:
    """Let jobs succeed, fail and be retried, and fail for good, and let a dead worker be swept."""
    stage.rust.run("add", first=0, count=2, max_attempts=1, fails=True)
    stage.rust.run("add", first=2, count=2, max_attempts=2, fails=True)
    stage.rust.run("add", first=4, count=20, queues=3)
    with psycopg.connect(stage.url, autocommit=True) as connection:
        connection.execute(_STALE)
        with stage.rust.working(**stage.settings, **settings):
            gone = "select not exists (select from graphile_worker._private_workers where id = 'gone')"
            wait_for(lambda: connection.execute(gone).fetchone() == (True,), "the dead worker is swept")
            wait_for(lambda: stage.count("attempts < max_attempts and run_at <= now()") == 0, "all jobs were tried")
        connection.execute("delete from graphile_worker._private_jobs")


def _logged(log: Path, database: str) -> set[str]:
    found: set[str] = set()
    lines: list[str] | None = None
    for line in [*log.read_text(encoding="utf-8").splitlines(), ""]:
        if lines is not None and line.startswith("\t"):
            lines.append(line[1:])
            continue
        if lines is not None:
            found.add(_tidied(lines))
        entry = _ENTRY.match(line)
        lines = [entry["text"]] if entry and entry["database"] == database else None
    return found


def _tidied(lines: list[str]) -> str:
    first, *rest = lines
    return "\n".join(line.rstrip() for line in [first, *textwrap.dedent("\n".join(rest)).splitlines()]).strip()


def compared(maker: Maker, log: Path, *, record: bool) -> Sequence[str]:
    """Compare what is sent now with what was recorded."""
    sent = sent_statements(maker, log)
    if record:
        RECORDED.write_text(json.dumps(sent, indent=2) + "\n")
    recorded = json.loads(RECORDED.read_text())
    new, gone = set(sent) - set(recorded), set(recorded) - set(sent)
    if new or gone:
        told = "\n\n".join([*(f"new: {each}" for each in sorted(new)), *(f"gone: {each}" for each in sorted(gone))])
        raise AssertionError(f"the crate sends other statements than make test replays; see --record.\n\n{told}")
    return [f"{len(sent)} statements that the crate sends, as make test replays them"]
