"""A worker stops by itself before others could declare it dead."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferryman.recovery.config import RecoverySettings
from ferryman.recovery.observer import Sign, SilenceObserver
from ferryman.recovery.rhythm import LOOK_SECONDS, Rhythm
from ferryman.recovery.safety_window import SafetyWindow
from tests.recovery.observed_world import EPOCH


def make_window(*, has_session: bool = True) -> SafetyWindow:
    window = SafetyWindow(threshold=300.0, grace=10.0, margin=2.0)
    window.begin(has_session=has_session)
    return window


def test_a_lease_begins_with_the_first_beat() -> None:
    window = make_window()
    assert not window.is_safe(0.0)

    window.beaten(5.0)

    assert window.is_safe(5.0)
    assert window.beaten_at == 5.0


@pytest.mark.parametrize(("now", "is_safe"), [(107.9, True), (108.0, False)])
def test_a_session_that_was_not_proved_for_the_grace_ends_it(now: float, is_safe: bool) -> None:
    window = make_window()
    window.beaten(50.0)

    window.proved(100.0)

    assert window.is_safe(now) is is_safe


@pytest.mark.parametrize(("now", "is_safe"), [(397.9, True), (398.0, False)])
def test_beats_that_were_not_confirmed_for_the_threshold_end_it(now: float, is_safe: bool) -> None:
    window = make_window()
    window.beaten(100.0)

    window.proved(now)

    assert window.is_safe(now) is is_safe


def test_behind_a_pooler_only_beats_count() -> None:
    window = make_window(has_session=False)

    window.beaten(100.0)

    assert window.is_safe(397.9)


def test_a_swept_worker_has_no_lease_until_it_is_registered_again() -> None:
    window = make_window()
    window.beaten(100.0)

    window.end()
    assert not window.is_safe(100.0)

    window.beaten(101.0)
    assert window.is_safe(101.0)


@given(
    looks=st.lists(st.floats(0.1, 4.0), min_size=3, max_size=40),
    proved_at=st.floats(0.0, 20.0),
    answer_after=st.floats(0.0, 6.0),
)
@settings(deadline=None, derandomize=True)
def test_it_ends_before_an_observer_can_act(looks: list[float], proved_at: float, answer_after: float) -> None:
    window = make_window()
    observer = SilenceObserver(grace=10.0, silences=[300.0], reconnect_time=10.0, longest_gap=4.0)
    window.beaten(0.0)
    window.proved(proved_at)
    now = 0.0

    for pause in looks:
        now += pause
        sent, now = now, now + answer_after
        signs = [Sign("worker", EPOCH, has_lost_session=True)] if sent > proved_at else []
        if observer.looked(signs, is_full=False, sent=sent, received=now):
            assert not window.is_safe(now)


def test_the_rhythm_follows_the_settings() -> None:
    rhythm = Rhythm.of(RecoverySettings(enabled=True))

    assert rhythm == Rhythm(
        beat=30.0, sweep=60.0, silent_after=120.0, grace=10.0, look=LOOK_SECONDS, longer_silences=[300.0, 900.0]
    )
    assert (rhythm.tick, rhythm.longest_gap) == (LOOK_SECONDS, 2 * LOOK_SECONDS)
    assert (rhythm.margin, rhythm.longest_pause) == (2.0, 2.0)


@pytest.mark.parametrize(("grace", "seconds"), [(1, 5), (10, 5), (27, 14), (3600, 30), (None, 30)])
def test_a_new_connection_may_take_as_long_as_the_grace_allows(grace: int | None, seconds: int) -> None:
    given = None if grace is None else timedelta(seconds=grace)

    assert Rhythm.of(RecoverySettings(enabled=True, lost_session_grace=given)).connect_seconds == seconds


@pytest.mark.parametrize("threshold", [0.2, 2.0, 3.0])
def test_a_threshold_of_two_heartbeats_leaves_time_to_work(threshold: float) -> None:
    beat, silent_after = timedelta(seconds=threshold / 2), timedelta(seconds=threshold)
    rhythm = Rhythm.of(RecoverySettings(enabled=True, heartbeat_interval=beat, sweep_threshold=silent_after))
    window = SafetyWindow(threshold=rhythm.silent_after, grace=rhythm.reconnect_time, margin=rhythm.margin)
    window.begin(has_session=False)
    window.beaten(0.0)

    assert window.is_safe(threshold / 2)


def test_with_a_short_grace_a_worker_proves_its_session_often_enough() -> None:
    rhythm = Rhythm.of(RecoverySettings(enabled=True, lost_session_grace=timedelta(seconds=1)))

    assert rhythm.tick < rhythm.grace - rhythm.margin
