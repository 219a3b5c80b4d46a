"""Named queues run one job at a time, whoever works on them, and hold up nobody else."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import JobSpec, RawJobSpec, WorkerContext
from ferryman.queries.claim import ClaimStatement
from ferryman.worker.claiming.claims import claimed_from_rows
from tests.support.measuring import JOBS, QUEUES, WORKER, session
from tests.support.waiting import until
from tests.support.workers import jobs, only_job, queues, run_all, running, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from ferryman import App, Client
    from tests.support.measuring import Session

pytestmark = pytest.mark.claims


class Traffic:
    """What handlers say about who runs beside whom."""

    def __init__(self) -> None:
        self.inside: Counter[str | None] = Counter()
        self.most_at_once: Counter[str | None] = Counter()
        self.order: list[int] = []
        self.go_on = asyncio.Event()

    async def enter(self, ctx: WorkerContext) -> None:
        queue = ctx.job.queue_name
        self.order.append(ctx.payload.get("number"))
        self.inside[queue] += 1
        self.most_at_once[queue] = max(self.most_at_once[queue], self.inside[queue])
        try:
            await asyncio.wait_for(self.go_on.wait(), 60)
        finally:
            self.inside[queue] -= 1


@pytest.fixture
async def traffic(app: App) -> Traffic:
    observed = Traffic()

    @app.task
    async def cross(ctx: WorkerContext, number: int = 0) -> None:
        await observed.enter(ctx)

    return observed


def crossing(number: int = 0, **spec: object) -> RawJobSpec:
    return RawJobSpec("cross", {"number": number}, JobSpec(**spec))


async def test_a_queue_is_serial_across_three_workers(app: App, client: Client, traffic: Traffic, connection) -> None:
    await client.add_raw_jobs([crossing(number, queue_name="letters") for number in range(30)])
    traffic.go_on.set()

    async with running(worker_of(app)), running(worker_of(app)), running(worker_of(app)):
        await until(lambda: jobs(connection) == [], "all are done")

    assert traffic.most_at_once["letters"] == 1
    assert traffic.order == list(range(30))


async def test_different_queues_run_side_by_side(
    app: App, client: Client, traffic: Traffic, connection: psycopg.Connection
) -> None:
    await client.add_raw_jobs([crossing(queue_name=f"queue {number}") for number in range(5)])
    worker = worker_of(app, concurrency=10)

    async with running(worker):
        await until(lambda: traffic.inside.total() == 5, "all five run at once")
        locked = queues(connection)
        assert {(queue.locked_by, queue.locked_at is not None) for queue in locked} == {(worker.worker_id, True)}
        assert {(job.attempts, job.locked_by) for job in jobs(connection)} == {(1, worker.worker_id)}
        traffic.go_on.set()

    assert {queue.locked_by for queue in queues(connection)} == {None}


async def test_a_queue_has_one_job_in_a_claim_of_many_slots(app: App, client: Client, traffic: Traffic) -> None:
    await client.add_raw_jobs([crossing(queue_name="letters") for _ in range(5)])

    async with running(worker_of(app, concurrency=10)):
        # Added later, so that once they run the worker has looked at the whole queue.
        await client.add_raw_jobs([crossing() for _ in range(3)])
        await until(lambda: traffic.inside[None] == 3, "the jobs without a queue run")
        assert traffic.inside["letters"] == 1
        traffic.go_on.set()


async def test_a_deep_queue_does_not_starve_the_others(app: App, client: Client, traffic: Traffic) -> None:
    await client.add_raw_jobs([crossing(queue_name="deep", priority=-5) for _ in range(500)])
    await client.add_raw_jobs([crossing(queue_name="other"), crossing()])

    async with running(worker_of(app, concurrency=3)):
        await until(lambda: traffic.inside.total() == 3, "all slots are busy")
        assert traffic.inside == {"deep": 1, "other": 1, None: 1}
        traffic.go_on.set()


async def test_a_queue_locked_by_somebody_else_is_left_alone(
    app: App, client: Client, traffic: Traffic, connection: psycopg.Connection
) -> None:
    await client.add_raw_job("cross", {}, JobSpec(queue_name="letters"))
    connection.execute("update graphile_worker._private_job_queues set locked_by = 'node', locked_at = now()")
    traffic.go_on.set()

    await run_all(app)

    assert (only_job(connection).attempts, traffic.order) == (0, [])
    assert queues(connection)[0].locked_by == "node"


async def test_a_failed_job_does_not_block_its_queue(app: App, client: Client, connection: psycopg.Connection) -> None:
    done = []

    @app.task(queue_name="letters")
    async def write(text: str) -> None:
        if text == "bad":
            raise ValueError("illegible")
        done.append(text)

    for text in ("bad", "good"):
        await client.add_raw_job("write", {"text": text}, JobSpec(queue_name="letters"))
    await run_all(app)

    assert done == ["good"]
    assert only_job(connection).payload == {"text": "bad"}
    assert queues(connection)[0].locked_at is None


async def test_jobs_run_by_priority_then_time_then_id(app: App, client: Client, traffic: Traffic) -> None:
    earlier = datetime.now(UTC) - timedelta(hours=1)
    await client.add_raw_jobs(
        [
            crossing(5, priority=1),
            crossing(3),
            crossing(4),
            crossing(2, run_at=earlier),
            crossing(1, priority=-1),
            crossing(0, priority=-1, run_at=earlier, queue_name="letters"),
        ]
    )
    traffic.go_on.set()

    await run_all(app, concurrency=1)

    assert traffic.order == [0, 1, 2, 3, 4, 5]


# Jobs of the same priority and run_at, whose rows have moved


@pytest.fixture
def table(database: str) -> Iterator[Session]:
    with session(database) as opened:
        opened.execute("insert into graphile_worker._private_tasks (identifier) values ('third')")
        opened.execute(f"insert into {QUEUES} (queue_name) values ('busy'), ('q')")
        opened.execute(f"update {QUEUES} set locked_by = 'somebody', locked_at = now() where id = 1")
        yield opened


@pytest.mark.parametrize(
    ("search", "wanted", "is_behind_a_busy_queue"),
    [
        (ClaimStatement.FRONT, 2, False),
        (ClaimStatement.BY_TASK, 1, False),
        (ClaimStatement.BY_TASK, 2, False),
        (ClaimStatement.BY_TASK, 2, True),
    ],
)
def test_a_queue_is_in_the_order_of_ids_however_its_rows_have_moved(
    table: Session, search: ClaimStatement, wanted: int, *, is_behind_a_busy_queue: bool
) -> None:
    table.execute(
        f"insert into {JOBS} (task_id, job_queue_id, run_at)"
        " select 1 + 2 * (n % 2), 2, timestamptz '2020-01-02' from generate_series(1, 100) as n"
    )
    if is_behind_a_busy_queue:
        table.execute(
            f"insert into {JOBS} (task_id, job_queue_id, run_at)"
            " select 1, 1, timestamptz '2020-01-01' from generate_series(1, 100)"
        )
    table.execute(f"update {JOBS} set attempts = 1 where id in (2, 3)")

    order = []
    for _ in range(5):
        call = search.value(WORKER.id, [1, 3], wanted=wanted, window=10, now=None, forbidden_flags=None)
        claims = claimed_from_rows(table.run(call), WORKER.id).claims
        order += [claim.job_id for claim in claims]
        table.settle(claims)
    assert order == [1, 2, 3, 4, 5]
