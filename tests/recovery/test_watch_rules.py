"""The rules by which workers are declared dead, in a model: never a live worker, and always a dead one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ferryman.recovery.beat_session import ANSWER_SECONDS
from ferryman.recovery.config import RecoverySettings
from ferryman.recovery.observer import Dead, Sign, SilenceObserver
from ferryman.recovery.rhythm import Rhythm
from ferryman.recovery.watch_role import TICKS_TO_STAND_BACK
from tests.recovery.observed_world import LONGEST_RETURN, RHYTHM, ROUND_TRIP, STEP, ModelWorker, World

BEAT = datetime(2030, 1, 1, tzinfo=UTC)
LOST = Sign("other", BEAT, has_lost_session=True)
OLD = Sign("other", BEAT, is_old=True)
SECONDS_UNTIL_SEEN = RHYTHM.tick * (TICKS_TO_STAND_BACK + 2) + LONGEST_RETURN
"""Until the observer is back, has the watch, and looks."""
SOME_STEPS = 40 * STEP
"""The model rounds each look up to its next step."""

spans = st.floats(1.0, 600.0)
episodes = st.lists(
    st.one_of(
        st.tuples(st.just("calm"), spans),
        st.tuples(st.just("outage"), spans),
        st.tuples(st.just("observer stopped"), spans),
        st.tuples(st.just("clock jumps"), st.floats(-86_400.0, 86_400.0)),
        st.tuples(st.just("session cut"), st.floats(LONGEST_RETURN, 60.0)),
        st.tuples(st.just("busy"), st.floats(1.0, 60.0)),
        st.tuples(st.just("stall"), st.floats(0.25, ANSWER_SECONDS)),
    ),
    max_size=6,
)
delays = st.floats(0.0, LONGEST_RETURN - 2 * STEP)


def tell(world: World, story: list[tuple[str, float]], live: ModelWorker) -> None:
    for kind, amount in story:
        if kind == "calm":
            world.pass_time(amount)
        elif kind == "outage":
            world.outage(amount)
        elif kind == "observer stopped":
            world.stop_observer(amount)
        elif kind == "clock jumps":
            world.clock_offset += amount
        elif kind == "session cut":
            live.has_session = False
            world.pass_time(amount)
        elif kind == "stall":
            world.stall(amount)
        elif kind == "busy":
            live.is_hung = True
            world.pass_time(amount)
            live.is_hung = False
            world.pass_time(2 * STEP)


@given(story=episodes, delay=delays, round_trip=st.sampled_from([ROUND_TRIP, 0.3, 2.7]))
@example(story=[("outage", 600.0)], delay=5.0, round_trip=ROUND_TRIP)
@example(story=[("calm", 29.0), ("observer stopped", 600.0)], delay=0.0, round_trip=ROUND_TRIP)
@example(story=[("session cut", LONGEST_RETURN), ("stall", 5.75), ("calm", 5.0)] * 2, delay=5.0, round_trip=ROUND_TRIP)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_live_worker_is_never_taken_for_dead(story: list[tuple[str, float]], delay: float, round_trip: float) -> None:
    live = ModelWorker("live", return_delay=delay)
    world = World([live, ModelWorker("another")], round_trip=round_trip)

    tell(world, story, live)
    world.pass_time(60.0)

    assert world.reported == {}


@given(before=episodes, after=episodes, delay=delays)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_killed_worker_is_always_found_soon_after_the_observer_can_look(
    before: list[tuple[str, float]], after: list[tuple[str, float]], delay: float
) -> None:
    live, killed = ModelWorker("live", return_delay=delay), ModelWorker("killed")
    world = World([live, killed])
    tell(world, before, live)
    killed.die()
    tell(world, after, live)

    world.pass_time(SECONDS_UNTIL_SEEN + RHYTHM.grace + RHYTHM.tick + SOME_STEPS)

    assert set(world.reported) == {"killed"}
    assert {dead.last_heartbeat_at for _, dead in world.reports_of("killed")} == {killed.beat}


@given(before=episodes, delay=delays)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_hung_worker_is_found_after_the_threshold(before: list[tuple[str, float]], delay: float) -> None:
    live, hung = ModelWorker("live", return_delay=delay), ModelWorker("hung")
    world = World([live, hung])
    tell(world, before, live)
    world.pass_time(LONGEST_RETURN)
    hung.is_hung = True

    world.pass_time(RHYTHM.silent_after - RHYTHM.beat - STEP)
    assert world.reported == {}
    world.pass_time(3 * RHYTHM.beat + RHYTHM.sweep + SECONDS_UNTIL_SEEN + SOME_STEPS)

    assert {dead.reason for _, dead in world.reports_of("hung")} == {"silent"}
    assert all(dead.silent_for >= RHYTHM.silent_after for _, dead in world.reports_of("hung"))


def test_a_killed_worker_is_told_of_the_moment_its_grace_ends() -> None:
    killed = ModelWorker("killed")
    world = World([killed])
    world.pass_time(31.0)
    killed.die()
    died = world.now

    world.pass_time(RHYTHM.tick + RHYTHM.grace + 2.0)

    told_at, told = world.reports_of("killed")[0]
    assert told.reason == "session lost"
    assert RHYTHM.grace <= told_at - died <= RHYTHM.grace + RHYTHM.tick + 1.0


@pytest.mark.parametrize(
    ("grace", "round_trip"), [(0.1, 0.04), (1.0, 0.3), (10.0, 2.7)], ids=["0.1 s", "1 s", "the default"]
)
def test_a_killed_worker_is_found_although_each_answer_takes_longer_than_the_time_between_two_looks(
    grace: float, round_trip: float
) -> None:
    rhythm = Rhythm.of(RecoverySettings(enabled=True, lost_session_grace=timedelta(seconds=grace)))
    assert round_trip > rhythm.tick
    killed, live = ModelWorker("killed"), ModelWorker("live")
    world = World([killed, live], rhythm=rhythm, round_trip=round_trip, step=grace / 400)
    world.pass_time(10 * grace)
    killed.die()

    world.pass_time(10 * grace)

    assert set(world.reported) == {"killed"}
    assert all(dead.silent_for >= grace for _, dead in world.reports_of("killed"))


def test_answers_that_are_late_now_and_then_do_not_keep_a_killed_worker_from_being_found() -> None:
    killed = ModelWorker("killed")
    world = World([killed])
    world.pass_time(31.0)
    killed.die()

    for _ in range(6):
        world.pass_time(5.0)
        world.stall(5.5)

    assert set(world.reported) == {"killed"}


def test_a_silent_worker_is_found_within_beat_threshold_and_sweep_at_the_defaults() -> None:
    """Whenever it stops between two full looks, and whatever the other thresholds are."""
    rhythm = Rhythm.of(RecoverySettings(enabled=True))
    for offset in range(0, 60, 5):
        hung = ModelWorker("hung")
        world = World([hung], rhythm=rhythm)
        world.pass_time(60.0 + offset)
        hung.is_hung = True
        stopped_at = world.now

        world.pass_time(400.0)

        found = [at for at, dead in world.reports_of("hung") if dead.silent_for > 300.0]
        assert found
        assert 300.0 - 30.0 <= found[0] - stopped_at <= 30.0 + 300.0 + 60.0


def test_the_next_look_comes_when_the_grace_ends_even_between_two_others() -> None:
    killed = ModelWorker("killed")
    killed.die()
    world = World([killed], rhythm=replace(RHYTHM, grace=9.0))

    world.pass_time(20.0)

    assert 9.0 <= world.reports_of("killed")[0][1].silent_for < 9.5


def test_the_dead_are_told_of_at_each_look_until_they_are_swept() -> None:
    killed = ModelWorker("killed")
    killed.die()
    world = World([killed])

    world.pass_time(20.0)

    assert len(world.reports_of("killed")) >= 3


def test_an_idle_observer_asks_the_database_every_two_seconds() -> None:
    world = World([ModelWorker("a"), ModelWorker("b")])

    world.pass_time(600.0)

    assert world.looks <= 300


def make_observer() -> SilenceObserver:
    return SilenceObserver(grace=10.0, silences=[120.0], reconnect_time=10.0, longest_gap=4.0)


def look(observer: SilenceObserver, at: float, *signs: Sign, is_full: bool = False) -> list[Dead]:
    return observer.looked(signs, is_full=is_full, sent=at, received=at)


def test_a_lost_session_makes_a_worker_dead_only_after_the_grace() -> None:
    observer = make_observer()

    told = [look(observer, at, LOST) for at in (0.0, 4.0, 8.0, 9.9, 10.0)]

    assert told == [[], [], [], [], [Dead("other", BEAT, "session lost", 10.0)]]


def test_a_beat_without_a_session_starts_the_grace_anew() -> None:
    observer = make_observer()
    later = Sign("other", BEAT + timedelta(microseconds=1), has_lost_session=True)

    told = [look(observer, at, sign) for at, sign in ((0.0, LOST), (4.0, LOST), (8.0, LOST), (12.0, later))]

    assert told == [[], [], [], []]
    assert observer.next_lost_in == 10.0


def test_a_session_that_comes_back_ends_the_suspicion() -> None:
    observer = make_observer()
    for at in (0.0, 4.0, 8.0):
        look(observer, at, LOST)

    look(observer, 9.0)

    assert observer.next_lost_in is None
    assert look(observer, 12.0, LOST) == []


def test_a_gap_between_looks_starts_the_grace_anew() -> None:
    observer = make_observer()
    for at in (0.0, 4.0, 8.0):
        look(observer, at, LOST)

    assert look(observer, 12.1, LOST) == []
    assert observer.next_lost_in == 10.0


def test_a_look_that_failed_starts_the_grace_anew() -> None:
    observer = make_observer()
    for at in (0.0, 4.0, 8.0):
        look(observer, at, LOST)

    observer.could_not_look()

    assert look(observer, 10.0, LOST) == []


def test_time_that_a_question_took_is_not_observed() -> None:
    observer = make_observer()

    for at in range(0, 20, 4):
        assert observer.looked([LOST], is_full=False, sent=float(at), received=at + 3.5) == []

    assert observer.next_lost_in == 8.0


def test_an_observer_that_was_held_up_between_two_other_questions_has_a_gap() -> None:
    observer = make_observer()
    observer.looked([LOST], is_full=False, sent=0.0, received=3.0)
    observer.asked(sent=3.0, received=6.0)
    observer.asked(sent=6.0, received=9.0)
    observer.looked([LOST], is_full=False, sent=11.0, received=14.0)
    assert observer.next_lost_in == 8.0, "the round trips of the others are not observed time"

    observer.asked(sent=14.0, received=17.0)
    observer.asked(sent=22.0, received=25.0)
    observer.looked([LOST], is_full=False, sent=26.0, received=29.0)
    assert observer.next_lost_in == 10.0


def test_time_in_which_another_question_took_much_longer_than_usual_is_not_observed() -> None:
    observer = make_observer()
    look(observer, 0.0, LOST)
    observer.asked(sent=0.0, received=3.0)

    assert look(observer, 4.0, LOST) == []
    assert observer.next_lost_in == 10.0


def test_silence_adds_up_over_gaps_but_nobody_is_dead_right_after_one() -> None:
    observer = make_observer()
    for at in range(0, 118, 2):
        look(observer, float(at), OLD, is_full=True)
    observer.could_not_look()

    told = [look(observer, 1000.0 + at, OLD, is_full=True) for at in range(0, 14, 2)]

    assert told[:5] == [[]] * 5
    assert told[5] == [Dead("other", BEAT, "silent", 126.0)]


def test_a_worker_that_beats_seldom_is_given_the_time_of_two_beats() -> None:
    observer = make_observer()
    seldom = replace(OLD, beat_interval=100.0)

    told = {at: look(observer, float(at), seldom, is_full=True) for at in range(0, 202, 2)}

    assert [at for at, dead in told.items() if dead] == [200]
