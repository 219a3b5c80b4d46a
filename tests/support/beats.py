"""A worker's signs of life without the worker, and ways to look at them."""

from __future__ import annotations

import itertools
import secrets
import threading
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ferryman.database.addresses import parse_address
from ferryman.database.identifiers import SchemaName
from ferryman.queries.advisory_locks import SESSION_CLASS, WATCH_CLASS, watch_key
from ferryman.recovery.beats import Beats
from ferryman.recovery.rhythm import Rhythm
from tests.support.rhythms import in_a_crowd

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from ferryman.embedded import EmbeddedPostgres
    from ferryman.recovery.observer import Dead

SCHEMA = SchemaName("graphile_worker")
QUICK = Rhythm(**in_a_crowd({"beat": 0.2, "sweep": 0.5, "silent_after": 60.0, "grace": 1.0, "look": 0.2}))
"""A rhythm for real time."""
USUAL = Rhythm(beat=30.0, sweep=60.0, silent_after=120.0, grace=10.0)
"""A rhythm for a clock that the test moves."""

_numbers = itertools.count(1)


class Life:
    """Beats, and what they have told."""

    def __init__(self, dsn: str, *, rhythm: Rhythm = QUICK, **options: Any) -> None:
        self.registered: list[str] = []
        self.swept: list[str] = []
        self.dead: list[Dead] = []
        self.is_registered = threading.Event()
        self.now = 1000.0
        self.beats = Beats(
            parse_address(dsn),
            SCHEMA,
            worker_id=f"ferryman-{secrets.token_hex(9)}",
            metadata={"host": "here", "pid": 1, "beat_interval": rhythm.beat},
            rhythm=rhythm,
            on_registered=self._was_registered,
            on_swept=self._was_swept,
            on_dead=self._found_dead,
            **options,
        )

    @property
    def worker_id(self) -> str:
        return self.beats.worker_id

    def found(self, worker_id: str) -> list[Dead]:
        return [dead for dead in self.dead if dead.worker_id == worker_id]

    def _was_registered(self, worker_id: str) -> None:
        self.registered.append(worker_id)
        self.is_registered.set()

    def _was_swept(self, worker_id: str) -> str:
        self.swept.append(worker_id)
        return f"ferryman-another-{next(_numbers)}"

    def _found_dead(self, dead: Sequence[Dead]) -> None:
        self.dead.extend(dead)


class SteppedLife(Life):
    """Beats without a thread, under a clock that only the test moves."""

    def __init__(self, dsn: str, *, rhythm: Rhythm = USUAL, **options: Any) -> None:
        super().__init__(dsn, rhythm=rhythm, clock=lambda: self.now, **options)

    def step(self, seconds: float = 0.0) -> float:
        """Let time pass, and do what is due; the pause that it asks for."""
        self.now += seconds
        return self.beats.once()


def beat_of(connection: psycopg.Connection, worker_id: str) -> Any:
    """The beat that the database knows; None when the worker is not registered."""
    row = connection.execute(
        "select last_heartbeat_at from graphile_worker._private_workers where id = %s", [worker_id]
    ).fetchone()
    return None if row is None else row[0]


def key_of(connection: psycopg.Connection, worker_id: str) -> Any:
    """The session key that the worker says it holds."""
    row = connection.execute(
        "select metadata -> 'session_key' from graphile_worker._private_workers where id = %s", [worker_id]
    ).fetchone()
    assert row is not None
    return row[0]


def holder_of(connection: psycopg.Connection, key: int) -> int | None:
    """The process of the server that holds the lock of this session key."""
    return _holder(connection, SESSION_CLASS, key)


def watcher(connection: psycopg.Connection) -> int | None:
    """The process of the server that holds the watch."""
    return _holder(connection, WATCH_CLASS, watch_key(SCHEMA))


def _holder(connection: psycopg.Connection, kind: int, key: int) -> int | None:
    row = connection.execute(
        "select pid from pg_locks where locktype = 'advisory' and objsubid = 2 and classid = %s::bigint::oid"
        " and objid = %s::bigint::oid and database = (select oid from pg_database where datname = current_database())",
        [kind, key],
    ).fetchone()
    return None if row is None else row[0]


def sweep(connection: psycopg.Connection, worker_id: str) -> None:
    """Stands in for a sweep."""
    connection.execute("select graphile_worker.delete_stale_workers(array[%s])", [worker_id])


def end_session(connection: psycopg.Connection, pid: int) -> None:
    """Let the server end one of its processes, and wait until it has."""
    assert connection.execute("select pg_terminate_backend(%s, 5000)", [pid]).fetchone() == (True,)


def over_tcp(server: EmbeddedPostgres, dsn: str) -> str:
    """The same database, by TCP."""
    return make_conninfo(server.tcp_dsn, dbname=conninfo_to_dict(dsn)["dbname"])
