"""Workers in processes of their own die, hang and are busy; others find out."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.recovery.rhythm import LOOK_SECONDS
from tests.support.beats import QUICK, USUAL, Life, SteppedLife, beat_of, end_session, holder_of, key_of, sweep, watcher
from tests.support.processes import BeatingProgram
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from ferryman.recovery.rhythm import Rhythm

SLOW_TO_BEAT = replace(QUICK, beat=3600.0)
"""So that no heartbeat comes during the test."""
HASTY = replace(QUICK, silent_after=10 * QUICK.beat)
BEATS_IN_A_GRACE = round(QUICK.grace / QUICK.beat)


@pytest.fixture
def start(database: str) -> Iterator[Callable[..., BeatingProgram]]:
    started: list[BeatingProgram] = []

    def start_one(rhythm: Rhythm = QUICK) -> BeatingProgram:
        started.append(BeatingProgram(database, rhythm))
        return started[-1]

    yield start_one
    for process in started:
        process.end()


@pytest.fixture
def watching(database: str, connection: psycopg.Connection) -> Iterator[Life]:
    """A worker of this process that has the watch."""
    life = Life(database, rhythm=SLOW_TO_BEAT)
    with closing(life.beats):
        life.beats.start()
        assert life.is_registered.wait(60)
        yield life


async def has_the_watch(connection: psycopg.Connection, worker_id: str) -> None:
    await until(
        lambda: watcher(connection) == holder_of(connection, key_of(connection, worker_id)), "the watch is taken"
    )


async def test_a_killed_process_is_found_dead_after_the_grace(
    watching: Life, start: Callable[..., BeatingProgram], connection: psycopg.Connection
) -> None:
    await has_the_watch(connection, watching.worker_id)
    process = start(SLOW_TO_BEAT)
    await process.registered()
    worker_id, key = process.worker_id, key_of(connection, process.worker_id)
    beat = beat_of(connection, worker_id)
    assert holder_of(connection, key) is not None

    process.kill()

    await until(lambda: holder_of(connection, key) is None, "its lock is gone")
    await until(lambda: bool(watching.found(worker_id)), "it is found dead")
    dead = watching.found(worker_id)[0]
    assert (dead.reason, dead.last_heartbeat_at) == ("session lost", beat)
    assert dead.silent_for >= SLOW_TO_BEAT.grace


async def test_the_watch_passes_on_when_its_holder_is_killed(
    start: Callable[..., BeatingProgram], connection: psycopg.Connection
) -> None:
    first = start(SLOW_TO_BEAT)
    await first.registered()
    await has_the_watch(connection, first.worker_id)
    second = start(SLOW_TO_BEAT)
    await second.registered()

    first.kill()

    await has_the_watch(connection, second.worker_id)
    await until(lambda: bool(second.told("dead", worker=first.worker_id)), "the first one is found dead")


async def test_a_process_that_ends_in_order_is_not_taken_for_dead(
    watching: Life, start: Callable[..., BeatingProgram], connection: psycopg.Connection
) -> None:
    ending, killed = start(SLOW_TO_BEAT), start(SLOW_TO_BEAT)
    await ending.registered()
    await killed.registered()

    ending.tell("end")
    await until(lambda: beat_of(connection, ending.worker_id) is None, "it is forgotten")
    killed.kill()

    await until(lambda: bool(watching.found(killed.worker_id)), "the other one is found dead")
    assert watching.found(ending.worker_id) == []


async def test_a_process_that_holds_the_interpreter_is_alive_by_its_lock(
    watching: Life, start: Callable[..., BeatingProgram], connection: psycopg.Connection
) -> None:
    busy = start()
    await busy.registered()
    key = key_of(connection, busy.worker_id)
    holder = holder_of(connection, key)

    busy.tell(f"hold {2 * QUICK.grace}")
    await until(lambda: bool(busy.told("held")), "it has held the lock")
    beat = beat_of(connection, busy.worker_id)
    await until(lambda: beat_of(connection, busy.worker_id) > beat, "beats go on")

    [held] = busy.told("held")
    assert held["seconds"] > QUICK.grace
    assert holder_of(connection, key) == holder
    assert watching.found(busy.worker_id) == []
    assert busy.told("swept") == []


async def test_a_stopped_process_is_found_silent_although_its_session_lasts(
    database: str, start: Callable[..., BeatingProgram], connection: psycopg.Connection
) -> None:
    stopped, other = start(HASTY), start(HASTY)
    await stopped.registered()
    await other.registered()

    stopped.freeze()

    await until(lambda: bool(other.told("dead", worker=stopped.worker_id)), "it is found silent")
    [*told] = other.told("dead", worker=stopped.worker_id)
    assert told[0]["reason"] == "silent"
    assert told[0]["silent_for"] >= HASTY.silent_after
    assert holder_of(connection, key_of(connection, stopped.worker_id)) is not None


async def test_a_stopped_watcher_that_was_swept_loses_the_watch_and_goes_on_as_another_when_it_wakes(
    start: Callable[..., BeatingProgram], connection: psycopg.Connection
) -> None:
    stopped = start(HASTY)
    await stopped.registered()
    old = stopped.worker_id
    await has_the_watch(connection, old)
    other = start(HASTY)
    await other.registered()
    stopped.freeze()
    await until(lambda: bool(other.told("dead", worker=old)), "it is found silent")

    sweep(connection, old)

    await has_the_watch(connection, other.worker_id)
    stopped.thaw()
    await until(lambda: bool(stopped.told("swept", worker=old)), "it learns that it was swept")
    await until(lambda: stopped.worker_id != old, "it is registered again")
    assert beat_of(connection, old) is None
    assert other.told("dead", worker=stopped.worker_id) == []


async def test_a_watcher_that_was_stopped_finds_nobody_dead_who_lives(
    start: Callable[..., BeatingProgram], connection: psycopg.Connection
) -> None:
    stopped = start()
    await stopped.registered()
    await has_the_watch(connection, stopped.worker_id)
    live = start()
    await live.registered()
    beats: set[Any] = set()
    enough = BEATS_IN_A_GRACE + 3

    stopped.freeze()
    await until(lambda: _gather(beats, beat_of(connection, live.worker_id)) > enough, "the other one goes on beating")
    stopped.thaw()
    beats.clear()
    await until(lambda: _gather(beats, beat_of(connection, stopped.worker_id)) > enough, "it goes on beating")

    assert stopped.told("dead") == []
    assert live.told("dead") == []


async def test_beats_go_on_while_the_event_loop_is_blocked(database: str, connection: psycopg.Connection) -> None:
    life = Life(database)
    with closing(life.beats):
        life.beats.start()
        assert life.is_registered.wait(60)
        beats: set[Any] = set()

        # Nothing is awaited here, so that the event loop of this test stands still.
        while _gather(beats, beat_of(connection, life.worker_id)) < 5:
            pass

        assert life.swept == []


async def test_a_worker_without_its_session_is_told_of_until_it_is_swept(
    database: str, connection: psycopg.Connection
) -> None:
    watching, gone = SteppedLife(database), SteppedLife(database)
    with closing(watching.beats):
        watching.step()
        gone.step()
        gone.beats.close(deregister=False)
        key = key_of(connection, gone.worker_id)
        await until(lambda: holder_of(connection, key) is None, "its lock is gone")
        told = []
        for _ in range(8):
            watching.step(2.0)
            told.append(len(watching.found(gone.worker_id)))
        assert told == [0, 0, 0, 0, 0, 1, 2, 3]

        sweep(connection, gone.worker_id)

        watching.step(2.0)
        assert len(watching.found(gone.worker_id)) == 3


def test_a_worker_of_another_kind_is_never_missed_for_want_of_a_session(
    database: str, connection: psycopg.Connection
) -> None:
    connection.execute(
        "insert into graphile_worker._private_workers (id, last_heartbeat_at, metadata) values"
        " ('rust', now(), '{\"pid\": 7}'), ('bare', now(), null), ('odd', now(), '{\"session_key\": \"x\"}'),"
        " ('huge', now(), '{\"session_key\": 1e300}'), ('endless', 'infinity', '{\"session_key\": 5}')"
    )
    life = SteppedLife(database)
    with closing(life.beats):
        for _ in range(12):
            life.step(2.0)

    assert {dead.worker_id for dead in life.dead} == {"huge"}


def test_a_watcher_that_was_late_leaves_the_watch_to_others(database: str) -> None:
    first, second = SteppedLife(database), SteppedLife(database)
    with closing(first.beats), closing(second.beats):
        first.step()
        second.step()
        assert first.beats.is_watching

        first.step(60.0)
        second.step(2.0)
        first.step(2.0)

        assert (first.beats.is_watching, second.beats.is_watching) == (False, True)


async def test_whoever_gets_the_watch_looks_at_once(database: str, connection: psycopg.Connection) -> None:
    """The one that had it may have died, and its grace begins when its session is missed."""
    first, second = SteppedLife(database), SteppedLife(database)
    with closing(first.beats), closing(second.beats):
        first.step()
        second.step()
        end_session(connection, watcher(connection) or 0)
        await until(lambda: watcher(connection) is None, "the watch is free")

        pause = second.step(LOOK_SECONDS)
        assert (second.beats.is_watching, pause) == (True, 0.0)

        while not second.found(first.worker_id):
            pause = second.step(pause)
        assert second.now == pytest.approx(1000.0 + LOOK_SECONDS + USUAL.grace, abs=0.01)


async def test_a_watcher_leaves_the_watch_although_a_callback_failed_when_it_got_it(
    database: str, connection: psycopg.Connection
) -> None:
    first, second = SteppedLife(database), SteppedLife(database)
    with closing(second.beats):
        first.step()
        second.step()
        first.beats.close()
        await until(lambda: watcher(connection) is None, "the watch is free")
        sweep(connection, second.worker_id)
        second.beats._on_swept = _refuse
        with pytest.raises(RuntimeError):
            second.step(2.0)
        second.beats._on_swept = second._was_swept
        second.step(2.0)
        assert second.beats.is_watching

        second.step(60.0)

        assert not second.beats.is_watching
        assert watcher(connection) is None


def _refuse(worker_id: str) -> str:
    raise RuntimeError(worker_id)


def test_a_late_watcher_takes_the_watch_again_when_nobody_else_wants_it(database: str) -> None:
    life = SteppedLife(database)
    with closing(life.beats):
        life.step()
        life.step(60.0)
        assert not life.beats.is_watching

        for _ in range(5):
            life.step(2.0)

        assert life.beats.is_watching


def test_a_worker_that_says_how_seldom_it_beats_is_given_that_time(
    database: str, connection: psycopg.Connection
) -> None:
    connection.execute(
        "insert into graphile_worker._private_workers (id, last_heartbeat_at, metadata) values"
        " ('seldom', now() - interval '1 hour', '{\"beat_interval\": 90}'),"
        " ('never', now() - interval '1 hour', '{\"beat_interval\": 1e300}'),"
        " ('odd', now() - interval '1 hour', '{\"beat_interval\": \"x\"}')"
    )
    life = SteppedLife(database)
    with closing(life.beats):
        for _ in range(85):
            life.step(2.0)
        assert {dead.worker_id for dead in life.dead} == {"odd"}
        for _ in range(10):
            life.step(2.0)

    assert {dead.worker_id for dead in life.dead} == {"odd", "seldom"}


def test_a_worker_that_stops_beating_is_told_of_again_and_again_with_its_silence(
    database: str, connection: psycopg.Connection
) -> None:
    connection.execute(
        "insert into graphile_worker._private_workers (id, last_heartbeat_at)"
        " values ('rust', now() - interval '1 hour'), ('early', now() + interval '1 hour')"
    )
    life = SteppedLife(database)
    with closing(life.beats):
        life.step()
        for _ in range(59):
            life.step(2.0)
        assert life.dead == []
        for _ in range(70):
            life.step(2.0)

    assert [(dead.reason, round(dead.silent_for, -1)) for dead in life.found("rust")] == [
        ("silent", 120.0),
        ("silent", 180.0),
        ("silent", 240.0),
    ]
    assert len(life.found("early")) == 3


def _gather(beats: set[Any], beat: Any) -> int:
    beats.add(beat)
    return len(beats)
