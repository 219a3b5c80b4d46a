"""What a local queue tells about itself, and how it pauses after fetches that find little."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from ferryman.hooks import (
    JobStart,
    LocalQueueInit,
    LocalQueueMode,
    LocalQueueRefetchDelayAbort,
    LocalQueueRefetchDelayExpired,
    LocalQueueRefetchDelayStart,
    LocalQueueSetMode,
)
from ferryman.worker import LocalQueueConfig, RefetchDelayConfig
from tests.support.waiting import until
from tests.support.workers import MINUTES, running
from tests.worker.local_queue.stage import Stage, numbered

if TYPE_CHECKING:
    from ferryman import Client

POLLING, WAITING, RELEASED = LocalQueueMode.POLLING, LocalQueueMode.WAITING, LocalQueueMode.RELEASED


def pausing(duration: timedelta = MINUTES, **given: int) -> LocalQueueConfig:
    return LocalQueueConfig(refetch_delay=RefetchDelayConfig(duration=duration, **given))


async def test_an_idle_queue_begins_looks_and_is_released(stage: Stage, client: Client) -> None:
    worker = stage.worker()
    async with running(worker):
        await until(lambda: stage.fetched[:1] == [0], "it found nothing")

    assert [type(event) for event in stage.events[:2]] == [LocalQueueInit, LocalQueueSetMode]
    assert stage.told(LocalQueueSetMode)[0].old_mode is LocalQueueMode.STARTING
    assert stage.modes == [POLLING, RELEASED]
    assert {event.worker_id for event in stage.events} == {worker.worker_id}
    assert stage.returned == []


async def test_each_burst_is_a_cycle_of_modes(stage: Stage, client: Client) -> None:
    async with running(stage.worker(concurrency=1)):
        for burst in range(2):
            await client.add_raw_jobs(numbered("stay", 5, first=5 * burst))
            await until(lambda burst=burst: stage.modes[1:] == [WAITING, POLLING] * burst + [WAITING], "jobs wait")
            stage.let_end(5)
            await until(lambda burst=burst: len(stage.ran) == 5 * (burst + 1), "the burst has run")
            await until(lambda: stage.inside == 0 and stage.fetched[-1] == 0, "it found nothing else")

    assert len(stage.told(LocalQueueInit)) == 1
    assert stage.modes == [POLLING, WAITING, POLLING, WAITING, POLLING, RELEASED]
    assert [count for count in stage.fetched if count] == [5, 5]


async def test_jobs_that_all_get_a_slot_leave_it_polling(stage: Stage, client: Client) -> None:
    await client.add_raw_jobs(numbered("note", 2))
    async with running(stage.worker()):
        await until(lambda: len(stage.ran) == 2, "both have run")

    assert stage.modes == [POLLING, RELEASED]


async def test_a_pause_follows_a_fetch_of_few_jobs_and_expires(stage: Stage, client: Client) -> None:
    await client.add_raw_jobs(numbered("note", 2))
    async with running(
        stage.worker(pausing(timedelta(milliseconds=100), threshold=5), use_notification_delivery=False)
    ):
        await until(lambda: stage.told(LocalQueueRefetchDelayExpired) != [], "the pause is over")

    started = stage.told(LocalQueueRefetchDelayStart)[0]
    assert timedelta(milliseconds=50) <= started.duration <= timedelta(milliseconds=100)
    assert started.threshold == 5
    assert 1 <= started.abort_threshold < 500
    assert sorted(stage.ran) == [0, 1]


async def test_a_pause_does_not_hold_up_jobs_that_are_there(stage: Stage, client: Client) -> None:
    await client.add_raw_jobs(numbered("note", 8))
    async with running(stage.worker(pausing(threshold=10), concurrency=2, use_notification_delivery=False)):
        await until(lambda: len(stage.ran) == 8, "all have run in the pause")

    assert len(stage.told(LocalQueueRefetchDelayStart)) == 1
    assert stage.told(LocalQueueRefetchDelayExpired) == []
    assert stage.fetched == [8]


async def test_enough_jobs_are_followed_by_no_pause(stage: Stage, client: Client) -> None:
    await client.add_raw_jobs(numbered("stay", 3))
    async with running(stage.worker(pausing(threshold=2), concurrency=1, use_notification_delivery=False)):
        await until(lambda: stage.fetched == [3], "more than two were found")
        assert stage.told(LocalQueueRefetchDelayStart) == []
        stage.let_end(3)
        await until(lambda: stage.fetched == [3, 0], "it looks again at once")
        await until(lambda: len(stage.told(LocalQueueRefetchDelayStart)) == 1, "and pauses now")


async def test_a_full_fetch_is_followed_by_no_pause_however_few_that_is(stage: Stage, client: Client) -> None:
    await client.add_raw_jobs(numbered("stay", 2))
    config = LocalQueueConfig(size=1, refetch_delay=RefetchDelayConfig(duration=MINUTES, threshold=50))
    async with running(stage.worker(config, concurrency=1)):
        await until(lambda: stage.fetched == [2], "all that it had room for")
        assert stage.told(LocalQueueRefetchDelayStart) == []
        stage.let_end(2)


async def test_jobs_that_arrive_in_a_deaf_pause_run_after_it(stage: Stage, client: Client) -> None:
    stage.hooks.on(JobStart, stage.events.append)
    config = pausing(timedelta(milliseconds=600), max_abort_threshold=sys.maxsize)
    async with running(stage.worker(config)):
        await until(lambda: stage.told(LocalQueueRefetchDelayStart) != [], "nothing was found")
        await client.add_raw_jobs(numbered("note", 1))
        await until(lambda: stage.ran == [0], "the job runs")

    kinds = [type(event) for event in stage.events]
    assert kinds.index(LocalQueueRefetchDelayExpired) < kinds.index(JobStart)
    assert stage.told(LocalQueueRefetchDelayStart)[0].abort_threshold is None
    assert stage.told(LocalQueueRefetchDelayAbort) == []


async def test_an_announcement_is_followed_at_once(stage: Stage, client: Client) -> None:
    async with running(stage.worker()):
        await until(lambda: stage.fetched[:1] == [0], "nothing was found")
        await client.add_raw_jobs(numbered("note", 1))
        await until(lambda: stage.ran == [0], "the job runs without a poll")


async def test_enough_announcements_end_a_pause(stage: Stage, client: Client) -> None:
    worker = stage.worker(pausing(max_abort_threshold=3), concurrency=2)
    async with running(worker):
        await until(lambda: stage.told(LocalQueueRefetchDelayStart) != [], "nothing was found")
        await until(lambda: worker._life._listener.is_listening, "announcements are heard")
        for number in range(3):
            await client.add_raw_jobs(numbered("note", 1, first=number))
        await until(lambda: stage.told(LocalQueueRefetchDelayAbort) != [], "the pause ends early")
        await until(lambda: 0 in stage.ran, "and jobs run")

    aborted = stage.told(LocalQueueRefetchDelayAbort)[0]
    assert aborted.count >= aborted.abort_threshold >= 1
    assert aborted.abort_threshold == stage.told(LocalQueueRefetchDelayStart)[0].abort_threshold


async def test_a_pause_does_not_hold_up_the_end(stage: Stage, client: Client) -> None:
    async with running(stage.worker(pausing(max_abort_threshold=sys.maxsize))):
        await until(lambda: stage.told(LocalQueueRefetchDelayStart) != [], "it pauses")

    assert stage.modes[-1] is RELEASED
    assert stage.told(LocalQueueRefetchDelayExpired) == []
