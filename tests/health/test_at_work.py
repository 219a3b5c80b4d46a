"""Repairs while real workers run and producers add: nothing is lost, nothing runs beside its neighbour."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from ferryman import App, JobSpec, RawJobSpec, Repair, Severity
from tests.support.waiting import until
from tests.support.workers import jobs, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import Client

REPAIRS = [repair for repair in Repair if repair is not Repair.UNUSED_TASKS]
QUEUES = 10


async def test_repairs_disturb_neither_workers_nor_producers(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    app = App(database)
    order: dict[int, list[int]] = defaultdict(list)
    inside: set[int] = set()
    overlaps: list[int] = []

    @app.task
    async def step(queue: int, number: int) -> None:
        if queue in inside:
            overlaps.append(queue)
        inside.add(queue)
        await asyncio.sleep(0)
        order[queue].append(number)
        inside.discard(queue)

    async def produce() -> None:
        for number in range(40):
            await client.add_raw_jobs(
                RawJobSpec("step", {"queue": queue, "number": number}, JobSpec(queue_name=f"q{queue}"))
                for queue in range(QUEUES)
            )

    producing = asyncio.create_task(produce())
    repaired = 0
    async with running(worker_of(app)), running(worker_of(app)):
        while not producing.done() or jobs(connection):
            done = await client.repair_health(REPAIRS)
            repaired += sum(one.number for one in done if one.repair is not Repair.UNUSED_QUEUES)
            report = await client.check_health()
            assert report.of("dangling_jobs")[0].severity is Severity.OK
            assert report.of("wedged_queues")[0].severity is Severity.OK
        await producing

    assert overlaps == []
    assert dict(order) == {queue: list(range(40)) for queue in range(QUEUES)}
    assert repaired == 0


async def test_the_queue_of_a_live_worker_whose_job_was_deleted_is_left_until_its_handler_ends(
    client: Client, connection: psycopg.Connection, database: str
) -> None:
    app = App(database)
    begun: list[int] = []
    go_on = asyncio.Event()

    @app.task
    async def slow(number: int) -> None:
        begun.append(number)
        await asyncio.wait_for(go_on.wait(), 60)

    for number in (1, 2):
        await client.add_raw_job("slow", {"number": number}, JobSpec(queue_name="q"))
    async with running(worker_of(app)):
        await until(lambda: begun == [1], "the first job has begun")
        connection.execute("delete from graphile_worker._private_jobs where id = 1")

        [finding] = (await client.check_health()).of("wedged_queues")
        assert finding.severity is not Severity.OK
        [done] = await client.repair_health([Repair.WEDGED_QUEUES])
        assert (done.number, begun) == (0, [1])

        go_on.set()
        await until(lambda: begun == [1, 2] and not jobs(connection), "the second job is done")

    assert (await client.check_health()).of("wedged_queues")[0].severity is Severity.OK
