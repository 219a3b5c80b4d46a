"""Behind a transaction pooler no session is a worker's own: it sends heartbeats, and holds no locks."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman.queries.advisory_locks import SESSION_CLASS, WATCH_CLASS
from tests.support.beats import SteppedLife, beat_of, key_of, over_tcp, sweep
from tests.support.network import PgBouncer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferryman.embedded import EmbeddedPostgres


@pytest.fixture
def pooler(server: EmbeddedPostgres, database: str, server_folder: Path) -> Iterator[PgBouncer]:
    with PgBouncer(over_tcp(server, database), server_folder) as started:
        yield started


@pytest.fixture
def life(pooler: PgBouncer) -> Iterator[SteppedLife]:
    made = SteppedLife(pooler.dsn)
    with closing(made.beats):
        yield made


def advisory_locks(connection: psycopg.Connection) -> int:
    row = connection.execute(
        "select count(*) from pg_locks where locktype = 'advisory' and classid::bigint = any (%s)"
        " and database = (select oid from pg_database where datname = current_database())",
        [[SESSION_CLASS, WATCH_CLASS]],
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_pooler_is_noticed_and_no_lock_is_taken(life: SteppedLife, connection: psycopg.Connection) -> None:
    for _ in range(10):
        life.step(2.0)

    assert key_of(connection, life.worker_id) is None
    assert advisory_locks(connection) == 0
    assert not life.beats.is_watching
    assert not life.beats.window.has_session


def test_beats_go_on_through_a_pooler(life: SteppedLife, connection: psycopg.Connection) -> None:
    life.step()
    beats = set()

    for _ in range(10):
        life.step(30.0)
        beats.add(beat_of(connection, life.worker_id))

    assert len(beats) == 10
    assert life.beats.window.is_safe(life.now + 100.0)


def test_nothing_is_left_behind_in_the_sessions_of_others(life: SteppedLife, pooler: PgBouncer) -> None:
    life.step()

    with psycopg.connect(pooler.dsn, autocommit=True) as other:
        row = other.execute(
            "select current_setting('statement_timeout'), (select count(*) from pg_prepared_statements)"
        ).fetchone()
    assert row == ("0", 0)


def test_a_swept_worker_behind_a_pooler_goes_on_under_a_new_id(
    life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()
    old = life.worker_id
    sweep(connection, old)

    life.step(2.0)

    assert life.swept == [old]
    assert beat_of(connection, life.worker_id) is not None


def test_a_worker_behind_a_pooler_is_never_missed_for_its_session_but_for_its_beats(
    database: str, life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()
    connection.execute("update graphile_worker._private_workers set last_heartbeat_at = now() - interval '1 hour'")
    direct = SteppedLife(database)
    with closing(direct.beats):
        for _ in range(59):
            direct.step(2.0)
        assert direct.dead == []
        for _ in range(31):
            direct.step(2.0)

    assert {(dead.worker_id, dead.reason) for dead in direct.dead} == {(life.worker_id, "silent")}


def test_a_worker_behind_a_pooler_finds_silent_ones_too(life: SteppedLife, connection: psycopg.Connection) -> None:
    connection.execute(
        "insert into graphile_worker._private_workers (id, last_heartbeat_at) values ('a', now() - interval '1 hour')"
    )

    for _ in range(70):
        life.step(2.0)

    assert {(dead.worker_id, dead.reason) for dead in life.dead} == {("a", "silent")}


def test_a_pooler_that_is_killed_and_started_again_is_lived_through(
    life: SteppedLife, pooler: PgBouncer, connection: psycopg.Connection
) -> None:
    life.step()
    beat, worker_id = beat_of(connection, life.worker_id), life.worker_id
    pooler.stop()
    assert life.step(2.0) < 1.0
    pooler.start()

    life.step(2.0)

    assert life.worker_id == worker_id
    assert beat_of(connection, worker_id) > beat
