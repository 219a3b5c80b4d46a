"""Registration, heartbeats and the session lock of a worker."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman.queries.advisory_locks import SESSION_CLASS
from ferryman.recovery import beat_session, membership
from ferryman.recovery.rhythm import LOOK_SECONDS
from tests.support.beats import Life, SteppedLife, beat_of, end_session, holder_of, key_of, sweep, watcher
from tests.support.logs import logged
from tests.support.rhythms import CROWD
from tests.support.waiting import somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def life(database: str) -> Iterator[SteppedLife]:
    made = SteppedLife(database)
    with closing(made.beats):
        yield made


def test_a_worker_is_registered_with_its_metadata_and_a_session_lock(
    life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()

    row = connection.execute(
        "select id, metadata, started_at <= now() from graphile_worker._private_workers"
    ).fetchone()
    key = key_of(connection, life.worker_id)
    assert row == (life.worker_id, {"host": "here", "pid": 1, "beat_interval": 30.0, "session_key": key}, True)
    assert holder_of(connection, key) is not None
    assert life.beats.window.has_session
    assert life.registered == [life.worker_id]


def test_the_connection_says_what_it_is_for(life: SteppedLife, connection: psycopg.Connection) -> None:
    life.step()

    pid = holder_of(connection, key_of(connection, life.worker_id))
    named = connection.execute("select application_name from pg_stat_activity where pid = %s", [pid]).fetchone()
    assert named == (f"ferryman beats {life.worker_id}",)


def test_it_beats_when_it_is_time_and_not_at_each_look(life: SteppedLife, connection: psycopg.Connection) -> None:
    life.step()
    beats = [beat_of(connection, life.worker_id)]

    for _ in range(30):
        life.step(2.0)
        beats.append(beat_of(connection, life.worker_id))

    assert len(set(beats)) == 3
    assert beats == sorted(beats)


def test_beside_a_rust_worker_whose_threshold_is_not_known_it_beats_at_each_look(
    life: SteppedLife, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Rust's sweeper would sweep a live worker whose heartbeats are further apart than its threshold."""
    life.step()
    connection.execute("select graphile_worker.worker_heartbeat('graphile_worker_1', '{\"pid\": 7}')")
    for _ in range(13):
        life.step(LOOK_SECONDS)  # until the beat after which it looks who else is there
    beats = set()
    for _ in range(8):
        life.step(LOOK_SECONDS)
        beats.add(beat_of(connection, life.worker_id))
    assert len(beats) == 8
    assert len(logged(caplog, "foreign_sweepers")) == 1

    connection.execute("select graphile_worker.worker_deregister('graphile_worker_1')")
    for _ in range(13):
        life.step(LOOK_SECONDS)
    last = beat_of(connection, life.worker_id)
    life.step(LOOK_SECONDS)
    assert beat_of(connection, life.worker_id) == last


def test_a_worker_that_a_rust_worker_has_swept_beats_at_each_look_from_then_on(
    life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()
    connection.execute("select graphile_worker.worker_heartbeat('graphile_worker_1')")
    sweep(connection, life.worker_id)
    beats = set()
    for _ in range(4):
        life.step(LOOK_SECONDS)
        beats.add(beat_of(connection, life.worker_id))
    assert len(beats) == 4


def test_no_more_than_one_statement_at_each_look(life: SteppedLife) -> None:
    pauses = [life.step(LOOK_SECONDS) for _ in range(20)]

    assert pauses == [LOOK_SECONDS] * 20


@pytest.mark.parametrize("is_beside_rust", [False, True], ids=["alone", "beside a Rust worker"])
def test_what_the_worker_is_doing_is_written_down_once_in_an_interval_and_costs_no_statement(
    database: str, connection: psycopg.Connection, is_beside_rust: bool
) -> None:
    """Beside a Rust worker each look sends a heartbeat."""
    if is_beside_rust:
        connection.execute("select graphile_worker.worker_heartbeat('graphile_worker_1')")
    figures = {"slots": 4, "running": 3, "done": 20, "failed": 1, "rss_bytes": 50_000_000, "loop_lag_seconds": 0.25}
    life = SteppedLife(database, state=lambda: figures)
    life.step()
    session, sent = life.beats._session, list[str]()
    assert session is not None
    fetch = session.fetch
    session.fetch = lambda call: sent.append(call.statement.name) or fetch(call)
    for _ in range(30):
        life.step(2.0)
    life.beats.close()
    states = connection.execute("select * from graphile_worker._ferryman_worker_states order by id").fetchall()
    assert [state[3:] for state in states] == [(4, 3, 20, 1, 50_000_000, 0.25)] * len(states)
    assert {state[1] for state in states} == {life.worker_id}
    assert len(states) == (3 if is_beside_rust else 2), "in a minute; alone, without the beat by which it registers"
    assert len([name for name in sent if name != "find_foreign_workers"]) == 31, "one for each look, and a goodbye"
    assert sent.count("find_foreign_workers") == (2 if is_beside_rust else 0), "in a minute, and only if any are there"


@pytest.mark.parametrize("trouble", [None, ZeroDivisionError])
def test_a_worker_that_does_not_know_what_it_is_doing_beats_all_the_same(
    database: str, connection: psycopg.Connection, trouble: type[Exception] | None
) -> None:
    def state() -> None:
        if trouble is not None:
            raise trouble

    life = SteppedLife(database, state=state)
    life.step()
    first = beat_of(connection, life.worker_id)
    life.step(30.0)
    assert beat_of(connection, life.worker_id) > first
    assert connection.execute("select from graphile_worker._ferryman_worker_states").fetchall() == []
    life.beats.close()


def test_the_lease_follows_the_answers_of_the_database(life: SteppedLife) -> None:
    assert not life.beats.window.is_safe(life.now)

    life.step()

    assert life.beats.window.beaten_at == life.now
    assert life.beats.window.is_safe(life.now + 7.9)
    assert not life.beats.window.is_safe(life.now + 8.0)


async def test_a_closed_worker_is_forgotten_and_its_lock_is_free(
    life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()
    key = key_of(connection, life.worker_id)

    life.beats.close()

    assert beat_of(connection, life.worker_id) is None
    await until(lambda: holder_of(connection, key) is None, "its lock is free")


async def test_a_worker_that_still_holds_jobs_may_end_without_deregistering(
    life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()
    key = key_of(connection, life.worker_id)

    life.beats.close(deregister=False)

    assert beat_of(connection, life.worker_id) is not None
    await until(lambda: holder_of(connection, key) is None, "its lock is free")


def test_a_swept_worker_goes_on_under_a_new_id(life: SteppedLife, connection: psycopg.Connection) -> None:
    life.step()
    old = life.worker_id
    sweep(connection, old)

    life.step(2.0)

    assert life.swept == [old]
    assert life.registered == [old, life.worker_id]
    assert life.worker_id != old
    assert beat_of(connection, old) is None
    assert beat_of(connection, life.worker_id) is not None
    assert life.beats.window.is_safe(life.now)


def test_the_lease_has_begun_when_the_worker_hears_that_it_is_registered(database: str) -> None:
    life = SteppedLife(database)
    was_safe = []
    life.beats._membership._on_registered = lambda _: was_safe.append(life.beats.window.is_safe(life.now))
    with closing(life.beats):
        life.step()

    assert was_safe == [True]


def test_the_lease_has_ended_when_the_worker_hears_that_it_was_swept(
    life: SteppedLife, connection: psycopg.Connection
) -> None:
    was_safe = []
    new_id = life.beats._on_swept
    life.beats._on_swept = lambda old: (was_safe.append(life.beats.window.is_safe(life.now)), new_id(old))[1]
    life.step()
    sweep(connection, life.worker_id)
    life.step(2.0)
    pid = holder_of(connection, key_of(connection, life.worker_id))
    assert pid is not None
    sweep(connection, life.worker_id)
    end_session(connection, pid)

    life.step(2.0)
    life.step(0.2)

    assert was_safe == [False, False]
    assert life.beats.window.is_safe(life.now)


def test_a_beat_never_brings_a_swept_worker_back(life: SteppedLife, connection: psycopg.Connection) -> None:
    life.step()
    old = life.worker_id
    sweep(connection, old)

    life.step(30.0)

    assert beat_of(connection, old) is None
    assert life.swept == [old]


async def test_a_sweep_that_commits_while_the_beat_waits_for_it_wins(
    database: str, life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()
    old = life.worker_id
    with psycopg.connect(database) as sweeper:
        sweep(sweeper, old)
        beat = asyncio.create_task(asyncio.to_thread(life.step, 30.0))
        await until(lambda: somebody_waits_for_a_lock(connection), "the beat waits for the sweep")
        sweeper.commit()
    await beat

    assert life.swept == [old]
    assert beat_of(connection, old) is None


def test_a_worker_that_was_swept_while_it_was_cut_off_goes_on_under_a_new_id(
    life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()
    old, key = life.worker_id, key_of(connection, life.worker_id)
    pid = holder_of(connection, key)
    assert pid is not None
    end_session(connection, pid)
    sweep(connection, old)

    life.step(2.0)
    life.step(0.2)

    assert life.swept == [old]
    assert beat_of(connection, old) is None
    assert key_of(connection, life.worker_id) != key


def test_a_terminated_session_is_replaced_by_one_with_another_lock(
    life: SteppedLife, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ferryman.recovery")
    life.step()
    key, beat = key_of(connection, life.worker_id), beat_of(connection, life.worker_id)
    pid = holder_of(connection, key)
    assert pid is not None
    end_session(connection, pid)

    pause = life.step(2.0)
    life.step(pause)

    assert pause < 1.0
    assert key_of(connection, life.worker_id) != key
    assert holder_of(connection, key_of(connection, life.worker_id)) is not None
    assert beat_of(connection, life.worker_id) > beat
    assert life.swept == []
    assert life.registered == [life.worker_id]
    assert [(record.event, record.duty) for record in caplog.records] == [
        ("duty_failed", "heartbeat"),
        ("duty_works_again", "heartbeat"),
    ]


def test_a_key_that_somebody_holds_is_not_taken(
    life: SteppedLife, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = iter([7, 8])
    monkeypatch.setattr(beat_session, "_new_key", lambda: next(keys))
    connection.execute("select pg_advisory_lock(%s, 7)", [SESSION_CLASS])

    life.step()

    assert key_of(connection, life.worker_id) == 8


def test_an_insert_whose_reply_was_lost_is_not_repeated(
    life: SteppedLife, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = membership.register_worker
    told = []

    def insert_and_lose_the_reply(worker_id: str, metadata: object) -> object:
        told.append(worker_id)
        if len(told) == 1:
            connection.execute(
                "insert into graphile_worker._private_workers (id, last_heartbeat_at) values (%s, now())", [worker_id]
            )
            raise psycopg.OperationalError("cut")
        return register(worker_id, metadata)

    monkeypatch.setattr(membership, "register_worker", insert_and_lose_the_reply)
    first = life.worker_id

    life.step()
    life.step(0.2)

    assert told == [first]
    assert life.registered == [first]
    assert key_of(connection, first) is not None


def test_an_insert_that_the_server_refused_is_tried_again_under_the_same_id(
    database: str, connection: psycopg.Connection
) -> None:
    connection.execute("alter table graphile_worker._private_workers rename to elsewhere")
    life = SteppedLife(database)
    with closing(life.beats):
        first = life.worker_id
        life.step()
        connection.execute("alter table graphile_worker.elsewhere rename to _private_workers")

        life.step(0.2)

        assert life.registered == [first]
        assert life.swept == []


def test_a_beat_does_not_wait_for_ever_for_somebody_who_locks_its_row(
    database: str, life: SteppedLife, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beat_session, "STATEMENT_SECONDS", 1.0 * CROWD)
    life.step()
    with psycopg.connect(database) as other:
        other.execute("select from graphile_worker._private_workers for update")

        pause = life.step(30.0)

    assert pause < 1.0
    assert life.step(pause) == LOOK_SECONDS
    assert life.swept == []


def test_the_server_looks_after_the_connection_too(
    database: str, life: SteppedLife, connection: psycopg.Connection
) -> None:
    life.step()

    [row] = life.beats._session._connection.fetch(
        "select current_setting('statement_timeout'), current_setting('idle_session_timeout')"
    )
    assert row == ("5s", "0")


def test_an_unreachable_database_is_told_of_once_and_without_the_password(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ferryman.recovery")
    life = SteppedLife(make_conninfo(database, host="127.0.0.1", port=1, password="hush-hush"))

    pauses = [life.step(1.0) for _ in range(70)]

    assert len(caplog.records) == 1
    assert "hush-hush" not in caplog.text
    assert max(pauses[:60]) <= 2.0
    assert 2.0 < max(pauses[60:]) <= 4.0


def test_closing_ends_in_time_although_the_database_is_gone(database: str) -> None:
    life = Life(make_conninfo(database, host="127.0.0.1", port=1))
    life.beats.start()

    life.beats.close(seconds=60.0)

    assert life.beats._thread is not None
    assert not life.beats._thread.is_alive()


def test_an_error_in_a_callback_does_not_end_the_beats(
    database: str, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    life = Life(database)
    refusals = [RuntimeError("not now"), RuntimeError("nor now")]
    new_id = life._was_swept

    def refuse_first(old: str) -> str:
        if refusals:
            raise refusals.pop()
        return new_id(old)

    life.beats._on_swept = refuse_first
    with closing(life.beats):
        life.beats.start()
        assert life.is_registered.wait(60)
        old = life.worker_id
        life.is_registered.clear()
        sweep(connection, old)

        assert life.is_registered.wait(60)

    assert life.registered == [old, life.worker_id]
    assert "not now" in caplog.text


def test_the_watch_is_taken_by_the_first_and_no_other(database: str, connection: psycopg.Connection) -> None:
    first, second = SteppedLife(database), SteppedLife(database)
    with closing(first.beats), closing(second.beats):
        for _ in range(3):
            first.step(2.0)
            second.step(2.0)

        assert (first.beats.is_watching, second.beats.is_watching) == (True, False)
        assert watcher(connection) == holder_of(connection, key_of(connection, first.worker_id))
