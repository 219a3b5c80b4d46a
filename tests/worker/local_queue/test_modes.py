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
from tests.support.inside import inside
from tests.support.waiting import until
from tests.support.workers import MINUTES, running
from tests.worker.local_queue.queue_watch import QueueWatch, numbered

if TYPE_CHECKING:
    from ferryman import Client

POLLING, WAITING, RELEASED = LocalQueueMode.POLLING, LocalQueueMode.WAITING, LocalQueueMode.RELEASED


def pausing(duration: timedelta = MINUTES, **given: int) -> LocalQueueConfig:
    return LocalQueueConfig(refetch_delay=RefetchDelayConfig(duration=duration, **given))


async def test_an_idle_queue_begins_looks_and_is_released(watch: QueueWatch, client: Client) -> None:
    worker = watch.worker()
    async with running(worker):
        await until(lambda: watch.fetched[:1] == [0], "it found nothing")

    assert [type(event) for event in watch.events[:2]] == [LocalQueueInit, LocalQueueSetMode]
    assert watch.told(LocalQueueSetMode)[0].old_mode is LocalQueueMode.STARTING
    assert watch.modes == [POLLING, RELEASED]
    assert {event.worker_id for event in watch.events} == {worker.worker_id}
    assert watch.returned == []


async def test_each_burst_is_a_cycle_of_modes(watch: QueueWatch, client: Client) -> None:
    async with running(watch.worker(concurrency=1)):
        for burst in range(2):
            await client.add_raw_jobs(numbered("stay", 5, first=5 * burst))
            await until(lambda burst=burst: watch.modes[1:] == [WAITING, POLLING] * burst + [WAITING], "jobs wait")
            watch.let_end(5)
            await until(lambda burst=burst: len(watch.ran) == 5 * (burst + 1), "the burst has run")
            await until(lambda: watch.inside == 0 and watch.fetched[-1] == 0, "it found nothing else")

    assert len(watch.told(LocalQueueInit)) == 1
    assert watch.modes == [POLLING, WAITING, POLLING, WAITING, POLLING, RELEASED]
    assert [count for count in watch.fetched if count] == [5, 5]


async def test_jobs_that_all_get_a_slot_leave_it_polling(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("note", 2))
    async with running(watch.worker()):
        await until(lambda: len(watch.ran) == 2, "both have run")

    assert watch.modes == [POLLING, RELEASED]


async def test_a_pause_follows_a_fetch_of_few_jobs_and_expires(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("note", 2))
    async with running(
        watch.worker(pausing(timedelta(milliseconds=100), threshold=5), use_notification_delivery=False)
    ):
        await until(lambda: watch.told(LocalQueueRefetchDelayExpired) != [], "the pause is over")

    started = watch.told(LocalQueueRefetchDelayStart)[0]
    assert timedelta(milliseconds=50) <= started.duration <= timedelta(milliseconds=100)
    assert started.threshold == 5
    assert 1 <= started.abort_threshold < 500
    assert sorted(watch.ran) == [0, 1]


async def test_a_pause_does_not_hold_up_jobs_that_are_there(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("note", 8))
    async with running(watch.worker(pausing(threshold=10), concurrency=2, use_notification_delivery=False)):
        await until(lambda: len(watch.ran) == 8, "all have run in the pause")

    assert len(watch.told(LocalQueueRefetchDelayStart)) == 1
    assert watch.told(LocalQueueRefetchDelayExpired) == []
    assert watch.fetched == [8]


async def test_enough_jobs_are_followed_by_no_pause(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("stay", 3))
    async with running(watch.worker(pausing(threshold=2), concurrency=1, use_notification_delivery=False)):
        await until(lambda: watch.fetched == [3], "more than two were found")
        assert watch.told(LocalQueueRefetchDelayStart) == []
        watch.let_end(3)
        await until(lambda: watch.fetched == [3, 0], "it looks again at once")
        await until(lambda: len(watch.told(LocalQueueRefetchDelayStart)) == 1, "and pauses now")


async def test_a_full_fetch_is_followed_by_no_pause_however_few_that_is(watch: QueueWatch, client: Client) -> None:
    await client.add_raw_jobs(numbered("stay", 2))
    config = LocalQueueConfig(size=1, refetch_delay=RefetchDelayConfig(duration=MINUTES, threshold=50))
    async with running(watch.worker(config, concurrency=1)):
        await until(lambda: watch.fetched == [2], "all that it had room for")
        assert watch.told(LocalQueueRefetchDelayStart) == []
        watch.let_end(2)


async def test_jobs_that_arrive_in_a_deaf_pause_run_after_it(watch: QueueWatch, client: Client) -> None:
    watch.hooks.on(JobStart, watch.events.append)
    config = pausing(timedelta(milliseconds=600), max_abort_threshold=sys.maxsize)
    async with running(watch.worker(config)):
        await until(lambda: watch.told(LocalQueueRefetchDelayStart) != [], "nothing was found")
        await client.add_raw_jobs(numbered("note", 1))
        await until(lambda: watch.ran == [0], "the job runs")

    kinds = [type(event) for event in watch.events]
    assert kinds.index(LocalQueueRefetchDelayExpired) < kinds.index(JobStart)
    assert watch.told(LocalQueueRefetchDelayStart)[0].abort_threshold is None
    assert watch.told(LocalQueueRefetchDelayAbort) == []


async def test_an_announcement_is_followed_at_once(watch: QueueWatch, client: Client) -> None:
    async with running(watch.worker()):
        await until(lambda: watch.fetched[:1] == [0], "nothing was found")
        await client.add_raw_jobs(numbered("note", 1))
        await until(lambda: watch.ran == [0], "the job runs without a poll")


async def test_enough_announcements_end_a_pause(watch: QueueWatch, client: Client) -> None:
    worker = watch.worker(pausing(max_abort_threshold=3), concurrency=2)
    async with running(worker):
        await until(lambda: watch.told(LocalQueueRefetchDelayStart) != [], "nothing was found")
        await until(lambda: inside(worker).is_listening, "announcements are heard")
        for number in range(3):
            await client.add_raw_jobs(numbered("note", 1, first=number))
        await until(lambda: watch.told(LocalQueueRefetchDelayAbort) != [], "the pause ends early")
        await until(lambda: 0 in watch.ran, "and jobs run")

    aborted = watch.told(LocalQueueRefetchDelayAbort)[0]
    assert aborted.count >= aborted.abort_threshold >= 1
    assert aborted.abort_threshold == watch.told(LocalQueueRefetchDelayStart)[0].abort_threshold


async def test_a_pause_does_not_hold_up_the_end(watch: QueueWatch, client: Client) -> None:
    async with running(watch.worker(pausing(max_abort_threshold=sys.maxsize))):
        await until(lambda: watch.told(LocalQueueRefetchDelayStart) != [], "it pauses")

    assert watch.modes[-1] is RELEASED
    assert watch.told(LocalQueueRefetchDelayExpired) == []
