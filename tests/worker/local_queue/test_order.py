"""What a local queue brings, and in which order it is served."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ferryman.worker import LocalQueueConfig
from tests.support.waiting import until
from tests.support.workers import running
from tests.worker.local_queue.queue_watch import numbered

if TYPE_CHECKING:
    from ferryman import Client
    from tests.worker.local_queue.queue_watch import QueueWatch


async def test_a_deep_queue_does_not_starve_the_others(watch: QueueWatch, client: Client) -> None:
    """Its many jobs stand in front of all others, and fill no fetch."""
    await client.add_raw_jobs(numbered("stay", 300, queue_name="deep", priority=-5))
    await client.add_raw_jobs(numbered("note", 30, first=1000))

    async with running(watch.worker(LocalQueueConfig(size=10), concurrency=6)):
        await until(lambda: len(watch.ran) == 31, "all others run while one of the deep queue stays")
        assert sorted(watch.ran) == [0, *range(1000, 1030)]
        watch.let_end(300)
        await until(lambda: len(watch.ran) == 330, "the deep queue is drained too")

    assert [number for number in watch.ran if number < 1000] == list(range(300))


async def test_one_fetch_is_served_by_priority_then_time_then_id(watch: QueueWatch, client: Client) -> None:
    earlier = datetime.now(UTC) - timedelta(hours=1)
    await client.add_raw_jobs(numbered("note", 20, first=200, priority=1))
    await client.add_raw_jobs(numbered("note", 20, first=100))
    await client.add_raw_jobs(numbered("note", 20, run_at=earlier))

    async with running(watch.worker(LocalQueueConfig(size=100), concurrency=1)):
        await until(lambda: len(watch.ran) == 60, "all have run")

    assert watch.ran == [*range(20), *range(100, 120), *range(200, 220)]
