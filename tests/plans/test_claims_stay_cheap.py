"""A claim costs the same however much work there is, and whoever it is for.

A real claimer asks for jobs on full tables. What it reads for each job that it gets is compared with what it reads on a
table that holds nothing but these jobs. With FERRYMAN_PROOF=1 the tables have the sizes that the design names, up to a
million jobs; else a tenth as many are enough, for what is read does not depend on it.
"""

from __future__ import annotations

import asyncio
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import psycopg
import pytest

from ferryman.queries.claim import ClaimStatement, claim_plain_jobs
from ferryman.worker.claiming import search
from ferryman.worker.claiming.search import SMALLEST_WINDOW
from tests.support.measuring import JOBS, QUEUES, Session, claimer_on, drain_and_vacuum, session
from tests.support.once import once
from tests.support.own_servers import own_server

if TYPE_CHECKING:
    from ferryman.worker.claiming.claimer import Claimer

    Limits: TypeAlias = dict[tuple[int, bool], float]

CLAIM = 24
CLAIMS = 8
OTHER_CLAIMS = (1, 500)
"""How many jobs other claims want, when it is known already how far to look."""
MOST_TIMES_AS_MUCH = {1: 3, CLAIM: 3, 500: 1.4}
"""Measured for 500: 1.10 to 1.35. To read 100,000 jobs in front once would add a quarter; a claim of one shows it."""
MOST_FOR_A_JOB_IN_FRONT = 3
"""What a claim may read for each job of its smallest window: far less than any of these tables, also for one job."""
IS_FULL = "FERRYMAN_PROOF" in os.environ  # read before fixtures hide it
MILLION = 1_000_000 if IS_FULL else 100_000


@dataclass(frozen=True)
class TableFill:
    """What a table holds: so many jobs made by some statements, which are told the size and the first of the queues."""

    name: str
    size: int
    fill: tuple[str, ...]
    queues: int = 0
    ours_behind: str | None = "insert into {jobs} (task_id) select 1 from generate_series(1, 3000)"
    """Jobs for us, when those that fill the table are not."""
    are_queued: bool = False
    """Whether the jobs for us have queues."""
    other_claims: tuple[int, ...] = OTHER_CLAIMS

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
    TableFill("few ready jobs", 3_000, (f"insert into {{jobs}} (task_id) select 1 {_NUMBERS}",), ours_behind=None),
    TableFill("ready jobs", MILLION, (f"insert into {{jobs}} (task_id) select 1 {_NUMBERS}",), ours_behind=None),
    TableFill(
        "future jobs at a better priority",
        MILLION,
        (f"insert into {{jobs}} (task_id, run_at, priority) select 1, now() + interval '1 day', -1 {_NUMBERS}",),
    ),
    TableFill("exhausted jobs", MILLION, (f"insert into {{jobs}} (task_id, attempts) select 1, 25 {_NUMBERS}",)),
    TableFill(
        "jobs that run elsewhere",
        200_000 if IS_FULL else 100_000,
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
        other_claims=(1,),
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
        other_claims=(1,),
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


@pytest.fixture
def limits() -> Limits:
    """How much a claim may read for each job, by its size, without queues and with them: by what it reads alone."""
    sizes = (CLAIM, *OTHER_CLAIMS)

    def measure() -> list[float]:
        with own_server() as server, session(server.dsn) as alone:
            return [_alone(alone, size, are_queued=are_queued) for size in sizes for are_queued in (False, True)]

    keys = [(size, are_queued) for size in sizes for are_queued in (False, True)]
    return dict(zip(keys, once("limits of claims", measure), strict=True))


def _alone(session: Session, size: int, *, are_queued: bool) -> float:
    session.execute(f"truncate {JOBS}, {QUEUES} restart identity")
    if are_queued:
        session.execute(f"insert into {QUEUES} (queue_name) select 'q' || n from generate_series(1, {size}) as n")
    queue = "n" if are_queued else "cast(null as int)"
    session.execute(
        f"insert into {JOBS} (task_id, job_queue_id) select 1, {queue} from generate_series(1, {size}) as n"
    )
    return MOST_TIMES_AS_MUCH[size] * _buffers_per_job(session, claims=1, size=size)


@pytest.fixture(params=FILLS, ids=lambda fill: fill.name)
def fill(request: pytest.FixtureRequest) -> TableFill:
    return request.param


def test_a_claim_reads_as_little_as_ever_on_a_full_table_whether_it_was_planned_before_or_is_now(
    database: str, fill: TableFill, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SECONDS_OF_LOOKING_FURTHER", math.inf)
    with session(database) as crowd:
        drain_and_vacuum(crowd)
        _plan(crowd)
        fill.build(crowd)
        _expect_cheap_claims(crowd, fill, limits)

        crowd.execute(f"analyze {JOBS}, {QUEUES}")
        crowd.forget_plans()
        _expect_cheap_claims(crowd, fill, limits)


def test_a_claim_that_was_planned_before_the_first_job_came_reads_as_little_as_ever(
    database: str, fill: TableFill, limits: Limits
) -> None:
    with session(database) as crowd:
        _plan(crowd)
        fill.build(crowd, min(fill.size, 5_000))
        assert _buffers_per_job(crowd) < limits[CLAIM, fill.are_queued]


def test_a_priority_that_has_only_future_jobs_costs_one_probe(database: str, limits: Limits) -> None:
    with session(database) as crowd:
        _plan(crowd)
        crowd.execute(
            f"insert into {JOBS} (task_id, priority, run_at) "
            "select 1, n % 100, now() + interval '1 day' from generate_series(1, 10000) as n"
        )
        crowd.execute(f"insert into {JOBS} (task_id, priority) select 1, 200 from generate_series(1, {CLAIM})")

        buffers = _buffers_per_job(crowd, claims=1) * CLAIM

        assert buffers < limits[CLAIM, False] * CLAIM + 100 * 4


def test_rows_that_others_are_taking_are_passed_by_without_a_second_look(database: str) -> None:
    held = 100
    claim = claim_plain_jobs("me", [1], wanted=1, window=2 * held, now=None, forbidden_flags=None)
    with session(database) as crowd, psycopg.connect(database) as rival:
        crowd.execute(f"insert into {JOBS} (task_id) select 1 from generate_series(1, {2 * held})")
        alone = crowd.measure(claim).buffers
        rival.execute(f"select from {JOBS} where id <= {held} for update")

        assert crowd.measure(claim).buffers < alone + held / 2


def _plan(session: Session) -> None:
    """Have all claims planned now."""
    for each in ClaimStatement:
        session.run(each.value("me", [1], wanted=1, window=9, now=None, forbidden_flags=None))


def _expect_cheap_claims(session: Session, fill: TableFill, limits: Limits) -> None:
    assert _buffers_per_job(session) < limits[CLAIM, fill.are_queued]
    for size in fill.other_claims:
        buffers = size * _buffers_per_job(session, claims=1, size=size, is_steady=True)
        assert buffers < size * limits[size, fill.are_queued] + SMALLEST_WINDOW * MOST_FOR_A_JOB_IN_FRONT, size


def _buffers_per_job(session: Session, *, claims: int = CLAIMS, size: int = CLAIM, is_steady: bool = False) -> float:
    """What a worker's claims read in all, for each job that it got by them; if steady, after it has got some."""
    jobs = asyncio.run(_claim(session, claims, size, is_steady=is_steady))
    assert {reading.statement: reading.scans for reading in session.readings}.items() <= PLANS.items()
    assert jobs == claims * size
    return sum(reading.buffers for reading in session.readings) / jobs


async def _claim(session: Session, claims: int, size: int, *, is_steady: bool) -> int:
    claimer = await claimer_on(session)
    if is_steady:
        await _claim_once(session, claimer, size)
        session.readings.clear()
    return sum([await _claim_once(session, claimer, size) for _ in range(claims)])


async def _claim_once(session: Session, claimer: Claimer, size: int) -> int:
    """Ask for so many jobs, until all are there or no more can be found. How many there are comes back."""
    wanted = size
    while wanted:
        claimed = await claimer.claim(wanted, is_announced=True)
        wanted -= len(claimed.claims)
        session.settle(claimed.claims)
        if not claimer.is_looking_further:
            break
    return size - wanted
