"""Recovery continues with slow answers, blocked loops and hooks that hang. What stops it is logged."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, closing
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.waiting import Ready

from ferryman.hooks import HookRegistry, JobInterrupted, WorkerRecovered, reporting
from ferryman.hooks.reporting import Teller
from ferryman.recovery import beat_session
from ferryman.recovery.beat_session import BeatSession
from ferryman.recovery.config import RecoverySettings
from ferryman.recovery.observation_log import BLIND_SECONDS, ObservationLog
from ferryman.recovery.observer import LOOKS_TO_MEASURE
from ferryman.recovery.rhythm import Rhythm
from ferryman.worker.duties import recovery_duty
from tests.support.beats import Life, SteppedLife, holder_of, key_of, over_tcp, watcher
from tests.support.fleet import idle_app
from tests.support.inside import inside
from tests.support.logs import logged
from tests.support.network import Fate, Proxy
from tests.support.rhythms import PATIENT, QUICK, recovery_of
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from ferryman.database.steps import Call, Row
    from ferryman.embedded import EmbeddedPostgres
    from tests.support.fleet import Fleet
    from tests.support.tables import Tables

A_TENTH = Rhythm.of(RecoverySettings(enabled=True, lost_session_grace=timedelta(seconds=0.1)))
DEFAULT = Rhythm.of(RecoverySettings(enabled=True))


async def test_a_killed_worker_is_found_over_a_network_that_is_slower_than_the_looks(
    database: str, server: EmbeddedPostgres, connection: psycopg.Connection
) -> None:
    async with Proxy(over_tcp(server, database)) as network:
        watching, gone = Life(network.dsn, rhythm=A_TENTH), SteppedLife(database)
        with closing(watching.beats):
            watching.beats.start()
            await until(lambda: watching.beats.is_watching, "it watches")
            network.delay_seconds = 0.02
            gone.step()
            key = key_of(connection, gone.worker_id)
            gone.beats.close(deregister=False)
            await until(lambda: holder_of(connection, key) is None, "its lock is gone")

            await until(lambda: watching.found(gone.worker_id), "it is found dead")
            await asyncio.to_thread(watching.beats.close)


async def test_a_watcher_keeps_the_watch_over_a_slow_network_until_it_has_found_and_swept_a_killed_worker(
    database: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some looks are followed by further questions, each of which takes longer than the time between two looks."""
    life, gone = SteppedLife(database, rhythm=DEFAULT), SteppedLife(database)
    fetch = BeatSession.fetch

    def answer_late(self: BeatSession, call: Call) -> Sequence[Row]:
        rows = fetch(self, call)
        life.now += 2.7
        return rows

    with closing(life.beats), closing(gone.beats):
        pause = life.step()
        gone.step()
        key = key_of(connection, gone.worker_id)
        monkeypatch.setattr(BeatSession, "fetch", answer_late)
        begun = life.now
        while life.now < begun + 120.0:  # four heartbeats, two full looks
            pause = life.step(pause)
            assert life.beats.is_watching
        gone.beats.close(deregister=False)
        await until(lambda: holder_of(connection, key) is None, "its lock is gone")
        killed = life.now
        while not life.found(gone.worker_id):
            pause = life.step(pause)
            assert life.beats.is_watching
        looks = 5  # one that misses its session, and four in the grace
        assert life.now - killed <= looks * (2.5 + 2.7) + 2 * 2.7

        found = life.now
        while life.now < found + (5 + 6 + 18) * 2.7:  # the sweep before, a new connection, and a sweep with hooks
            pause = life.step(pause)
            assert life.beats.is_watching


def test_a_login_may_take_longer_where_answers_are_slow(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a worker could never return: a login takes four round trips, and 5 s are the usual limit."""
    life, opened = SteppedLife(database, rhythm=DEFAULT), []
    connect = BeatSession.open

    def refuse(*_: Any, connect_seconds: int = 0, **__: Any) -> BeatSession:
        opened.append(connect_seconds)
        raise psycopg.errors.ConnectionTimeout

    monkeypatch.setattr(BeatSession, "open", refuse)
    for _ in range(4):
        life.step(2.0)
    assert opened == [5, 10, 20, 30]  # nobody can rob a worker that was never registered

    monkeypatch.setattr(BeatSession, "open", connect)
    fetch = BeatSession.fetch

    def answer_late(self: BeatSession, call: Call) -> Sequence[Row]:
        rows = fetch(self, call)
        life.now += 2.0
        return rows

    with closing(life.beats):
        life.step(2.0)
        for _ in range(LOOKS_TO_MEASURE):
            life.step(2.0)
        assert life.beats._patience.seconds == 5
        monkeypatch.setattr(BeatSession, "fetch", answer_late)
        for _ in range(LOOKS_TO_MEASURE):
            life.step(2.0)

        life.beats._lose_session()
        opened.clear()
        monkeypatch.setattr(BeatSession, "open", refuse)
        for _ in range(3):
            life.step(2.0)
        assert opened == [16, 16, 16]
        while life.beats.window.is_safe(life.now):
            life.step(2.0)
        opened.clear()
        life.step(2.0)
        life.step(2.0)
        assert opened == [30, 5], "when it may have been swept, there is no grace left that it could spend"


def test_a_server_is_given_up_when_it_is_silent_not_when_a_statement_takes_two_round_trips(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one does that is prepared: with answers after 3 s, each connection would end at its sixth look."""
    now = 0.0
    monkeypatch.setattr(beat_session, "time", SimpleNamespace(monotonic=lambda: now))

    def two_answers() -> Generator[None, int, str]:
        for _ in range(2):
            while not (yield) & Ready.R:
                pass
        return "done"

    limited = beat_session._until_silent(two_answers())
    next(limited)
    now = 4.0
    limited.send(Ready.NONE)
    limited.send(Ready.R)
    now = 9.0
    limited.send(Ready.NONE)
    with pytest.raises(StopIteration, match="done"):
        limited.send(Ready.R)

    silent = beat_session._until_silent(two_answers())
    next(silent)
    now += beat_session.ANSWER_SECONDS + 0.1
    with pytest.raises(psycopg.OperationalError, match="has not answered"):
        silent.send(Ready.NONE)


def test_a_minute_in_which_nothing_could_be_observed_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ferryman.recovery")
    now = 1000.0
    log = ObservationLog(DEFAULT, lambda: now)
    for _ in range(40):
        now += BLIND_SECONDS / 20
        log.observed(0.0)
    assert len(logged(caplog, "observation_failed")) == 1

    log.observed(2.5)

    assert len(logged(caplog, "observation_works_again")) == 1


def test_looks_that_are_too_far_apart_to_observe_anything_are_logged(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    life = SteppedLife(database)
    with closing(life.beats):
        for _ in range(8):
            life.step(10.0)

    assert len(logged(caplog, "observation_failed")) == 1


@pytest.mark.parametrize(("rhythm", "round_trip"), [(A_TENTH, 0.04), (DEFAULT, 2.7)])
def test_a_grace_that_round_trips_cannot_serve_is_logged_with_one_that_they_can(
    rhythm: Rhythm, round_trip: float, caplog: pytest.LogCaptureFixture
) -> None:
    log = ObservationLog(rhythm, lambda: 0.0)
    log.measured(None)
    log.measured(0.001)
    assert caplog.records == []

    for _ in range(3):
        log.measured(round_trip)

    [record] = logged(caplog, "grace_too_short", round_trip=round_trip)
    assert vars(record)["least_grace"] == pytest.approx(10 * round_trip)


async def dead_without_a_sweep(database: str, connection: psycopg.Connection) -> tuple[SteppedLife, SteppedLife, str]:
    """Two workers, the first of which watches, and the id of one that has died."""
    first, second, gone = SteppedLife(database), SteppedLife(database), SteppedLife(database)
    for life in (first, second, gone):
        life.step()
    key = key_of(connection, gone.worker_id)
    gone.beats.close(deregister=False)
    await until(lambda: holder_of(connection, key) is None, "its lock is gone")
    return first, second, gone.worker_id


async def test_a_watcher_whose_sweeps_do_not_come_leaves_the_watch_to_another(
    database: str, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, gone = await dead_without_a_sweep(database, connection)
    with closing(first.beats), closing(second.beats):
        while not second.found(gone):
            first.step(2.0)
            second.step(2.0)
            assert first.now < 1000.0 + 60.0

        assert first.found(gone)
        assert (first.beats.is_watching, second.beats.is_watching) == (False, True)
        assert len(logged(caplog, "watch_given_up")) == 1


async def test_a_watcher_that_has_swept_keeps_the_watch_although_the_dead_worker_stays_registered(
    database: str, connection: psycopg.Connection
) -> None:
    """Such as one whose job a hook skips."""
    first, second, gone = await dead_without_a_sweep(database, connection)
    with closing(first.beats), closing(second.beats):
        for _ in range(60):
            first.step(2.0)
            first.beats.attended(dead.death for dead in first.dead)
            second.step(2.0)

        assert len(first.found(gone)) > 30
        assert first.beats.is_watching


@pytest.fixture
def may_not_sweep(database: str, connection: psycopg.Connection) -> Iterator[str]:
    """The database, for a role that may do all that a worker does, except for writing crashes down."""
    role = f"no_sweeper_{os.getpid()}"
    connection.execute(f"create role {role} login bypassrls password 'known'")
    connection.execute(f"grant usage on schema graphile_worker to {role}")
    connection.execute(f"grant all on all tables in schema graphile_worker to {role}")
    connection.execute(f"grant all on all sequences in schema graphile_worker to {role}")
    connection.execute(f"revoke insert on graphile_worker._ferryman_crashes from {role}")
    yield make_conninfo(database, user=role, password="known")
    connection.execute(f"drop owned by {role}")
    connection.execute(f"drop role {role}")


@pytest.mark.parametrize("reason", ["an exhausted pool", "a role that may not sweep"])
async def test_a_watcher_that_cannot_sweep_leaves_the_watch_to_a_worker_that_can(
    fleet: Fleet, tables: Tables, may_not_sweep: str, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    is_exhausted = reason == "an exhausted pool"
    app, recovery = idle_app(fleet.dsn if is_exhausted else may_not_sweep), recovery_of(PATIENT)
    unable = worker_of(app, recovery=recovery, max_connections=1)
    able = worker_of(idle_app(fleet.dsn), recovery=recovery)
    async with running(unable), AsyncExitStack() as borrowed:
        await until(lambda: watcher(tables.connection) is not None, "it watches")
        if is_exhausted:
            await borrowed.enter_async_context(inside(unable).pool.connection())
        job = tables.held_job(tables.worker("dead", session_key=12345))
        await until(lambda: logged(caplog, "watch_given_up"), "it leaves the watch")
        async with running(able):
            await until(lambda: tables.job(job)["locked_by"] is None, "the job is recovered")

    assert [crash["recovered_by"] for crash in tables.crashes()] == [able.worker_id]


@pytest.mark.program
async def test_a_blocked_event_loop_does_not_keep_others_from_recovering(
    fleet: Fleet, connection: psycopg.Connection
) -> None:
    """The blocked worker is the watcher, and its thread continues to watch."""
    [blocked] = await fleet.started(PATIENT, concurrency=1)
    await until(lambda: watcher(connection) is not None, "it watches")
    [blocking] = await fleet.add("compute", seconds=80.0)
    await fleet.until_started(blocking)
    [killed] = await fleet.started(PATIENT, concurrency=1)
    gate = fleet.gate()
    [job] = await fleet.add(gate=str(gate))
    assert await fleet.until_started(job) == killed.first_id
    [heir] = await fleet.started(PATIENT, concurrency=1)

    killed.kill()

    assert await fleet.until_started(job, 2) == heir.first_id
    assert fleet.history.lines("ended", job=blocking) == []
    assert blocked.logged("watch_given_up")
    gate.touch()
    await fleet.until_settled(job)


async def test_a_hook_that_hangs_does_not_keep_a_worker_from_recovering(fleet: Fleet, tables: Tables) -> None:
    hooks, told = HookRegistry(), []

    @hooks.on(JobInterrupted)
    async def hang(event: JobInterrupted) -> None:
        told.append(event.job.id)
        await asyncio.Event().wait()

    async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of(PATIENT), hooks=hooks)):
        for number in range(2):
            job = tables.held_job(tables.worker(f"dead {number}", session_key=12345 + number))
            await until(lambda job=job: tables.job(job)["locked_by"] is None, "the job is recovered")

    assert len(told) == 1


async def test_a_hook_that_takes_too_long_is_cancelled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    hooks, seen = HookRegistry(), []

    @hooks.on(WorkerRecovered)
    async def hang(event: WorkerRecovered) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    @hooks.on(WorkerRecovered)
    async def see(event: WorkerRecovered) -> None:
        seen.append("told")

    teller = Teller(hooks, within=timedelta(seconds=0.05))
    event = WorkerRecovered(worker_id="sweeper", dead_worker_ids=("dead",), jobs_recovered=1)
    teller.tell(event, event)
    await teller.told()
    await asyncio.sleep(0)

    assert sorted(seen) == ["cancelled", "cancelled", "told", "told"]
    [first, _] = logged(caplog, "hook_timed_out")
    assert "hang" in vars(first)["hook"]


async def test_events_that_hooks_did_not_hear_before_the_end_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reporting, "CLOSE_SECONDS", 0.01)
    hooks = HookRegistry()

    @hooks.on(WorkerRecovered)
    async def hang(event: WorkerRecovered) -> None:
        await asyncio.Event().wait()

    teller = Teller(hooks)
    event = WorkerRecovered(worker_id="sweeper", dead_worker_ids=("dead",), jobs_recovered=1)
    teller.tell(event, event, event)
    await teller.close()

    assert len(logged(caplog, "hook_events_dropped", count=3)) == 1


@pytest.mark.program
@pytest.mark.parametrize("grace", [QUICK["lost_session_grace"], None], ids=["a grace", "no grace"])
async def test_without_a_grace_a_worker_that_is_cut_off_keeps_its_jobs_until_the_threshold(
    fleet: Fleet, tables: Tables, server: EmbeddedPostgres, grace: float | None
) -> None:
    """Also when the one that watches has a grace: it sweeps another worker, which was lost later."""
    settings = {**PATIENT, "lost_session_grace": grace}
    async with Proxy(over_tcp(server, fleet.dsn)) as network:
        [cut] = await fleet.started(settings, dsn=network.dsn, concurrency=1)
        gate = fleet.gate()
        [job] = await fleet.add(gate=str(gate))
        assert await fleet.until_started(job) == cut.first_id
        await fleet.started(PATIENT, concurrency=1)

        network.new_connections = Fate.REFUSED
        network.reset()
        if grace is not None:
            await fleet.until_swept(cut.first_id)
            return
        await fleet.until_swept(tables.worker("lost later", session_key=12345))
        network.new_connections = Fate.WORK

        await fleet.until_beaten(cut.first_id, 2)
        gate.touch()
        assert await fleet.until_settled(job) == cut.first_id
        assert fleet.lost() == ["lost later"]


def test_without_a_grace_a_worker_holds_no_session_lock_and_does_not_watch(
    database: str, connection: psycopg.Connection
) -> None:
    settings = RecoverySettings(enabled=True, lost_session_grace=None)
    life = SteppedLife(database, rhythm=Rhythm.of(settings))
    with closing(life.beats):
        for _ in range(3):
            life.step(2.0)

        assert key_of(connection, life.worker_id) is None
        assert watcher(connection) is None
        assert life.beats.goes_by_beats
        assert life.beats.window.is_safe(life.now + 100.0)


def test_silence_adds_up_over_observers_that_do_not_live_long(database: str, tables: Tables) -> None:
    """As in a crash loop behind a pooler, without session locks. A worker that beats in between starts anew."""
    rhythm = Rhythm.of(RecoverySettings(enabled=True, lost_session_grace=None))
    for worker_id in ("silent", "late"):
        tables.worker(worker_id, age="1 hour", beat_interval=30)
    lives = []
    for _ in range(5):
        life = SteppedLife(database, rhythm=rhythm)
        with closing(life.beats):
            for _ in range(13):
                life.step(2.5)
        lives.append(life)
        if len(lives) == 2:
            tables.worker("late", age="2 hours", beat_interval=30)

    assert [number for number, life in enumerate(lives, 1) if life.found("silent")] == [4, 5]
    assert [number for number, life in enumerate(lives, 1) if life.found("late")] == []


async def test_the_holder_of_the_watch_that_is_no_worker_is_named_in_the_log(
    database: str, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    life = SteppedLife(database)
    connection.execute("set application_name = 'a stranger'")
    with closing(life.beats):
        watch = life.beats._watch._key
        connection.execute("select pg_advisory_lock(%s, %s)", [0x46525754, watch])
        for _ in range(60):
            life.step(2.0)
        assert life.beats.is_watching is False

    [record] = logged(caplog, "recovery_lock_held", pid=connection.info.backend_pid)
    assert (vars(record)["application_name"], vars(record)["role"]) == ("a stranger", connection.info.user)


async def test_the_holder_of_the_lock_of_sweeps_is_named_in_the_log(
    fleet: Fleet,
    tables: Tables,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(recovery_duty, "SECONDS_HELD", 0.3)
    connection.execute("select pg_advisory_lock(%s, hashtext('graphile_worker'))", [0x46525357])
    job = tables.held_job(tables.worker("dead", session_key=12345))

    async with running(worker_of(idle_app(fleet.dsn), recovery=recovery_of(PATIENT))):
        await until(lambda: logged(caplog, "recovery_lock_held", pid=connection.info.backend_pid), "it is named")
        connection.execute("select pg_advisory_unlock_all()")
        await until(lambda: tables.job(job)["locked_by"] is None, "the job is recovered")
