"""Options of local queues are checked whole, with the messages of the Rust worker."""

from __future__ import annotations

import random
import re
import sys
from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest

from ferryman import WorkerOptions
from ferryman.errors import ConfigurationError
from ferryman.worker import LocalQueueConfig, RefetchDelayConfig
from ferryman.worker.claiming.refetch_pause import RefetchPause
from ferryman.worker.identity import Identity


def test_the_defaults_are_those_of_the_rust_worker() -> None:
    config = LocalQueueConfig(refetch_delay=RefetchDelayConfig())

    assert (config.size, config.ttl, config.queue_count) == (100, timedelta(minutes=5), 1)
    assert config.refetch_delay == RefetchDelayConfig(
        duration=timedelta(milliseconds=100), threshold=0, max_abort_threshold=None
    )
    assert LocalQueueConfig().refetch_delay is None
    assert WorkerOptions().local_queue is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 0}, "local_queue.size must be greater than 0"),
        ({"size": -5}, "local_queue.size must be greater than 0"),
        ({"size": 2**31}, "local_queue.size (2147483648) must not exceed 2147483647"),
        ({"queue_count": 0}, "local_queue.queue_count must be greater than 0"),
        ({"ttl": timedelta()}, "local_queue.ttl must be greater than 0"),
        ({"size": 0, "queue_count": 0}, "size must be greater than 0; local_queue.queue_count must be greater than 0"),
    ],
)
def test_a_queue_that_cannot_work_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        LocalQueueConfig(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"duration": timedelta()}, "local_queue.refetch_delay.duration must be greater than 0"),
        ({"threshold": -1}, "local_queue.refetch_delay.threshold cannot be negative"),
        ({"max_abort_threshold": 0}, "local_queue.refetch_delay.max_abort_threshold must be greater than 0"),
    ],
)
def test_a_pause_that_cannot_work_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        RefetchDelayConfig(**given)


def test_a_pause_longer_than_the_poll_interval_is_refused() -> None:
    queue = LocalQueueConfig(refetch_delay=RefetchDelayConfig(duration=timedelta(seconds=3)))

    with pytest.raises(ConfigurationError) as caught:
        WorkerOptions(local_queue=queue, poll_interval=timedelta(seconds=2.5))

    message = "local_queue.refetch_delay.duration (3 s) must not be larger than poll_interval (2.5 s)"
    assert message in str(caught.value)
    assert WorkerOptions(local_queue=queue, poll_interval=timedelta(seconds=3)).local_queue == queue


def test_options_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        LocalQueueConfig().size = 5
    with pytest.raises(FrozenInstanceError):
        RefetchDelayConfig().threshold = 5


@pytest.mark.parametrize(("found", "pauses"), [(0, True), (3, True), (4, False)])
def test_only_a_fetch_of_few_jobs_is_followed_by_a_pause(found: int, pauses: bool) -> None:
    pause = RefetchPause(RefetchDelayConfig(threshold=3), size=10, identity=Identity())

    assert (pause.after_fetch(found, now=0.0) is not None) == pauses
    assert pause.is_on == pauses


def test_pauses_take_between_half_and_all_of_their_duration_and_end_by_chance() -> None:
    random.seed(1)
    config = RefetchDelayConfig(duration=timedelta(seconds=2))
    started = [RefetchPause(config, size=10, identity=Identity()).after_fetch(0, now=0.0) for _ in range(500)]

    durations = [event.duration.total_seconds() for event in started]
    thresholds = [event.abort_threshold for event in started]
    assert 1.0 <= min(durations) < 1.1
    assert 1.9 < max(durations) <= 2.0
    assert 1 <= min(thresholds) <= 3
    assert 47 <= max(thresholds) < 50


def test_a_pause_ends_at_its_time_or_with_enough_announcements() -> None:
    pause = RefetchPause(RefetchDelayConfig(max_abort_threshold=1), size=10, identity=Identity())

    assert pause.after_pulse(100) is None
    assert pause.after_fetch(0, now=5.0).abort_threshold == 1
    assert pause.at(5.01) is None
    assert pause.after_pulse(1).count == 1
    assert not pause.is_on
    pause.after_fetch(0, now=6.0)
    assert pause.at(6.2) is not None
    assert not pause.is_on


def test_a_pause_may_be_deaf() -> None:
    pause = RefetchPause(RefetchDelayConfig(max_abort_threshold=sys.maxsize), size=10, identity=Identity())

    assert pause.after_fetch(0, now=0.0).abort_threshold is None
    assert pause.after_pulse(10**9) is None
    assert pause.is_on
