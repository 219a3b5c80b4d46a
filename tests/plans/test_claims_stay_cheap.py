"""A claim costs the same however much work there is, and whoever it is for.

A real claimer asks for jobs on full tables. What it reads for each job that it gets is compared with what it reads on a
table that holds nothing but these jobs. With FERRYMAN_PROOF=1 the tables have the sizes that the design names, up to a
million jobs; else a tenth as many are enough, for what is read does not depend on it.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pytest

from ferryman.queries import working
from tests.support.measuring import JOBS, QUEUES, Session, claimer_on, drain_and_vacuum, session
from tests.support.once import once
from tests.support.own_servers import own_server

if TYPE_CHECKING:
    Limits: TypeAlias = dict[bool, float]

CLAIM = 24
CLAIMS = 8
MOST_TIMES_AS_MUCH = 3
IS_FULL = "FERRYMAN_PROOF" in os.environ  # read before fixtures hide it
MILLION = 1_000_000 if IS_FULL else 100_000


@dataclass(frozen=True)
class TableFill:
    """What a table holds: so many jobs made by some statements, which are told the size and the first of the queues."""

    name: str
    size: int
    fill: tuple[str, ...]
    queues: int = 0
    ours_behind: str | None = "insert into {jobs} (task_id) select 1 from generate_series(1, 1000)"
    """Jobs for us, when those that fill the table are not."""
    are_queued: bool = False
    """Whether the jobs for us have queues."""

    def build(self, on: Session, size: int | None = None) -> None:
        """Fill the tables."""
        size = size or self.size
        queues = min(self.queues, size)
        if queues:
            on.execute(f"insert into {QUEUES} (queue_name) select 'q' || n from generate_series(1, {queues}) as n")
        first = on.cursor.execute(f"select min(id) from {QUEUES}").fetchone()[0]
        for statement in (*self.fill, *filter(None, [self.ours_behind])):
            on.execute(statement.format(jobs=JOBS, tables=QUEUES, size=size, queues=queues, first=first))


_NUMBERS = "from generate_series(1, {size}) as n"
_BUSY = "update {tables} set locked_at = now(), locked_by = 'somebody' where id = {first}"
_YESTERDAY = "now() - interval '1 day'"
_DEEP = f"insert into {{jobs}} (task_id, job_queue_id, run_at) select 1, {{first}}, {_YESTERDAY} {_NUMBERS}"
_QUEUED = "select 1, {first} + n % 40 + 1 from generate_series(1, 1280) as n"
FILLS = [
    TableFill("ready jobs", MILLION, (f"insert into {{jobs}} (task_id) select 1 {_NUMBERS}",), ours_behind=None),
    TableFill(
        "future jobs at a better priority",
        MILLION,
        (f"insert into {{jobs}} (task_id, run_at, priority) select 1, now() + interval '1 day', -1 {_NUMBERS}",),
    ),
    TableFill("exhausted jobs", MILLION, (f"insert into {{jobs}} (task_id, attempts) select 1, 25 {_NUMBERS}",)),
    TableFill(
        "jobs that run elsewhere",
        100_000,
        (f"insert into {{jobs}} (task_id, locked_at, locked_by) select 1, now(), 'somebody' {_NUMBERS}",),
    ),
    TableFill(
        "jobs of other tasks, at a better priority and before",
        300_000 if IS_FULL else 100_000,
        (f"insert into {{jobs}} (task_id, priority, run_at) select 2 + n % 5, -(n % 2), {_YESTERDAY} {_NUMBERS}",),
    ),
    TableFill(
        "a job in each of many queues",
        100_000,
        (f"insert into {{jobs}} (task_id, job_queue_id) select 1, {{first}} + n - 1 {_NUMBERS}",),
        queues=100_000,
        ours_behind=None,
        are_queued=True,
    ),
    TableFill(
        "a job in each of many queues, behind jobs of other tasks",
        100_000,
        (
            f"insert into {{jobs}} (task_id, priority) select 2, -1 {_NUMBERS}",
            f"insert into {{jobs}} (task_id, job_queue_id) select 1, {{first}} + n - 1 {_NUMBERS}",
        ),
        queues=100_000,
        ours_behind=None,
        are_queued=True,
    ),
    TableFill("a deep queue that is busy, before jobs without a queue", 100_000, (_BUSY, _DEEP), queues=1),
    TableFill(
        "a deep queue that is busy, before other queues",
        100_000,
        (_BUSY, _DEEP),
        queues=41,
        ours_behind=f"insert into {{jobs}} (task_id, job_queue_id) {_QUEUED}",
        are_queued=True,
    ),
    TableFill(
        "jobs at each of many priorities",
        50_000,
        (f"insert into {{jobs}} (task_id, priority) select 1, n % 1000 {_NUMBERS}",),
        ours_behind=None,
    ),
    TableFill(
        "one job at each of many priorities",
        1_000,
        (f"insert into {{jobs}} (task_id, priority) select 1, n {_NUMBERS}",),
        ours_behind=None,
    ),
]
PLANS = {
    "claim_plain_jobs": frozenset({"jobs_main_index", "jobs_pkey1", "job_queues_pkey1", "pg_class_oid_index"}),
    "claim_jobs": frozenset(
        {
            "_ferryman_jobs_by_queue",
            "job_queues_pkey1",
            "jobs_main_index",
            "jobs_pkey1",
            "pg_class_oid_index",
            "tasks_pkey",
        }
    ),
    "claim_jobs_by_task": frozenset(
        {
            "_ferryman_jobs_by_queue",
            "_ferryman_jobs_by_task",
            "_ferryman_queued_jobs_by_task",
            "job_queues_pkey1",
            "jobs_main_index",
            "jobs_pkey1",
            "pg_class_oid_index",
            "tasks_pkey",
        }
    ),
}
"""What each statement reads through, whatever the planner believes; jobs are looked up by their place besides."""


ALONE = TableFill("nothing else", CLAIM, (f"insert into {{jobs}} (task_id) select 1 {_NUMBERS}",), ours_behind=None)
ALONE_IN_QUEUES = TableFill(
    "nothing else", CLAIM, (FILLS[5].fill[-1],), queues=CLAIM, ours_behind=None, are_queued=True
)


@pytest.fixture
def limits() -> Limits:
    """How much a claim may read for each job, without queues and with them, by what it reads on an empty one."""

    def measure(fill: TableFill) -> float:
        with own_server() as server, session(server.dsn) as alone:
            fill.build(alone)
            return MOST_TIMES_AS_MUCH * _buffers_per_job(alone, claims=1)

    without, within = once("limits of claims", lambda: [measure(ALONE), measure(ALONE_IN_QUEUES)])
    return {False: without, True: within}


@pytest.fixture(params=FILLS, ids=lambda fill: fill.name)
def fill(request: pytest.FixtureRequest) -> TableFill:
    return request.param


def test_a_claim_reads_as_little_as_ever_on_a_full_table_whether_it_was_planned_before_or_is_now(
    database: str, fill: TableFill, limits: Limits
) -> None:
    with session(database) as crowd:
        drain_and_vacuum(crowd)
        _plan(crowd)
        fill.build(crowd)
        assert _buffers_per_job(crowd) < limits[fill.are_queued]

        crowd.execute(f"analyze {JOBS}, {QUEUES}")
        crowd.forget_plans()
        assert _buffers_per_job(crowd) < limits[fill.are_queued]


def test_a_claim_that_was_planned_before_the_first_job_came_reads_as_little_as_ever(
    database: str, fill: TableFill, limits: Limits
) -> None:
    with session(database) as crowd:
        _plan(crowd)
        fill.build(crowd, min(fill.size, 5_000))
        assert _buffers_per_job(crowd) < limits[fill.are_queued]


def test_a_priority_that_has_only_future_jobs_costs_one_probe(database: str, limits: Limits) -> None:
    with session(database) as crowd:
        _plan(crowd)
        crowd.execute(
            f"insert into {JOBS} (task_id, priority, run_at) "
            "select 1, n % 100, now() + interval '1 day' from generate_series(1, 10000) as n"
        )
        crowd.execute(f"insert into {JOBS} (task_id, priority) select 1, 200 from generate_series(1, {CLAIM})")

        buffers = _buffers_per_job(crowd, claims=1) * CLAIM

        assert buffers < limits[False] * CLAIM + 100 * 4


def _plan(session: Session) -> None:
    """Have all claims planned now."""
    for search in working.Search:
        session.run(working.claim_jobs("me", [1], wanted=1, window=9, now=None, forbidden_flags=None, search=search))


def _buffers_per_job(session: Session, *, claims: int = CLAIMS, size: int = CLAIM) -> float:
    """What a worker's claims read in all, for each job that it got by them."""
    jobs = asyncio.run(_claim(session, claims, size))
    assert {reading.statement: reading.scans for reading in session.readings}.items() <= PLANS.items()
    assert jobs == claims * size
    return sum(reading.buffers for reading in session.readings) / jobs


async def _claim(session: Session, claims: int, size: int) -> int:
    claimer = await claimer_on(session)
    jobs = 0
    for _ in range(claims):
        wanted = size
        while wanted:
            claimed = await claimer.claim(wanted, is_announced=True)
            wanted -= len(claimed.claims)
            session.settle(claimed.claims)
            if not claimer.is_looking_further:
                break
        jobs += size - wanted
    return jobs
