"""Claims when jobs stand in front that are not for this worker, or wait for a queue that is busy."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import App
from ferryman.queries.claim import ClaimStatement, claim_plain_jobs
from ferryman.worker.claiming import search
from ferryman.worker.claiming.claims import claimed_from_rows
from tests.support import versions
from tests.support.measuring import JOBS, QUEUES, claimer_on, session
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferryman.worker.claiming.claimer import Claimer
    from tests.support.measuring import Session

pytestmark = pytest.mark.claims

NOW = datetime(2030, 1, 1, tzinfo=UTC)
MINE = (1, 3)
PLENTY = 10_000
SEEDS = 60 if versions.wanted is None else 12
"""Random tables to try. Few will do on other servers: which job comes first does not depend on the version."""


@dataclass(frozen=True)
class Row:
    """A job as the model of a claim sees it."""

    id: int
    task: int
    priority: int
    run_at: datetime
    queue: int | None
    is_open: bool
    is_flagged: bool


@pytest.fixture
def table(database: str) -> Iterator[Session]:
    with session(database) as opened:
        opened.execute("insert into graphile_worker._private_tasks (identifier) values ('third')")
        yield opened


def _fill(table: Session, dice: random.Random) -> tuple[list[Row], set[int]]:
    """Any jobs in any queues; those of the second task are not for us."""
    table.execute(f"truncate {JOBS}, {QUEUES} restart identity")
    queues = range(1, dice.choice([2, 5, 20]) + 1)
    busy = {queue for queue in queues if dice.random() < 0.4}
    for queue in queues:
        locked = "now()" if queue in busy else "null"
        table.execute(f"insert into {QUEUES} (queue_name, locked_at) values ('q{queue}', {locked})")
    tasks, priorities = dice.choice([[1], [1, 2, 3]]), dice.choice([[0], [-1, 0, 0, 5]])
    in_queues, in_one, rows = dice.random(), dice.choice([0, 0.8]), []
    for number in range(1, dice.choice([1, 30, 120]) + 1):
        queue = 1 if dice.random() < in_one else dice.choice(queues)
        row = Row(
            id=number,
            task=dice.choice(tasks),
            priority=dice.choice(priorities),
            run_at=NOW + timedelta(seconds=dice.randint(-20, 0 if queue == 1 else 9)),
            queue=queue if dice.random() < in_queues else None,
            is_open=dice.random() < 0.8,
            is_flagged=dice.random() < 0.2,
        )
        rows.append(row)
        table.cursor.execute(
            f"insert into {JOBS} (task_id, priority, run_at, job_queue_id, attempts, flags) "
            "values ($1, $2, $3, $4, $5, $6)",
            [row.task, row.priority, row.run_at, row.queue, *_open_and_flags(row)],
        )
    return rows, busy


def _open_and_flags(row: Row) -> tuple[int, str | None]:
    return 0 if row.is_open else 25, '{"no": true}' if row.is_flagged else None


def _expected(rows: Sequence[Row], busy: set[int], wanted: int) -> list[int]:
    """The first jobs that are ours to take, in order, one of each queue."""
    taken, queues = [], set(busy)
    for row in sorted(rows, key=lambda row: (row.priority, row.run_at, row.id)):
        if row.task in MINE and row.is_open and not row.is_flagged and row.run_at <= NOW and row.queue not in queues:
            taken.append(row.id)
            queues |= {row.queue} - {None}
    return taken[:wanted]


def _claim(table: Session, *, wanted: int, window: int = PLENTY, search: ClaimStatement) -> tuple[list[int], bool]:
    call = search.value("me", MINE, wanted=wanted, window=window, now=NOW, forbidden_flags=["no"])
    with table.cursor.connection.transaction(force_rollback=True):
        claimed = claimed_from_rows(table.run(call), "me")
    return [claim.job_id for claim in claimed.claims], claimed.is_window_full


@pytest.mark.parametrize("search", [ClaimStatement.FRONT, ClaimStatement.BY_TASK])
def test_both_claims_take_what_comes_first(table: Session, search: ClaimStatement) -> None:
    for seed in range(SEEDS):
        rows, busy = _fill(table, random.Random(seed))
        for wanted in (1, 7, 500):
            taken, _ = _claim(table, wanted=wanted, search=search)
            assert taken == _expected(rows, busy, wanted), seed


def test_a_plain_claim_takes_what_comes_first_or_leaves_it_where_jobs_have_queues(table: Session) -> None:
    outcomes = set()
    for seed in range(SEEDS):
        rows, _ = _fill(table, random.Random(seed))
        queued = {row.id for row in rows if row.queue is not None}
        for wanted in (1, 7, 500):
            first = _expected([replace(row, queue=None) for row in rows], set(), wanted)
            meets_queued = not queued.isdisjoint(first)
            claimed = _claim(table, wanted=wanted, search=ClaimStatement.PLAIN)
            assert claimed == (([], True) if meets_queued else (first, False)), seed
            outcomes.add((meets_queued, len(queued) > 0))
    assert outcomes == {(True, True), (False, True), (False, False)}


@pytest.mark.parametrize("search", ClaimStatement)
def test_a_job_that_is_never_due_is_not_waited_for(table: Session, search: ClaimStatement) -> None:
    table.execute(f"insert into {JOBS} (task_id, run_at) values (1, 'infinity')")
    call = search.value("me", MINE, wanted=9, window=9, now=NOW, forbidden_flags=None)

    claimed = claimed_from_rows(table.run(call), "me")

    assert (claimed.claims, claimed.next_due_in) == ([], None)


def test_a_plain_claim_says_when_the_next_job_is_due(table: Session) -> None:
    for run_at in ("2029-12-31", "2030-01-01 00:00:07", "2030-01-01 00:00:05"):
        table.cursor.execute(f"insert into {JOBS} (task_id, run_at) values (1, $1)", [f"{run_at}+00"])
    call = claim_plain_jobs("me", MINE, wanted=9, window=9, now=NOW, forbidden_flags=None)

    claimed = claimed_from_rows(table.run(call), "me")

    assert [claim.job_id for claim in claimed.claims] == [1]
    assert (claimed.is_window_full, claimed.next_due_in, claimed.took_all) == (False, 5.0, True)


@pytest.mark.parametrize("other", ["2, '2029-12-31'", "1, '2029-12-31'"], ids=["for somebody else", "beyond the limit"])
def test_a_plain_claim_says_if_another_job_is_due(table: Session, other: str) -> None:
    table.execute(f"insert into {JOBS} (task_id, run_at) values (1, '2029-12-30'), ({other})")
    call = claim_plain_jobs("me", MINE, wanted=1, window=9, now=NOW, forbidden_flags=None)

    claimed = claimed_from_rows(table.run(call), "me")

    assert [claim.job_id for claim in claimed.claims] == [1]
    assert (claimed.is_window_full, claimed.took_all) == (False, False)


@pytest.mark.parametrize("search", ClaimStatement)
def test_a_small_window_never_puts_a_later_job_first(table: Session, search: ClaimStatement) -> None:
    full = 0
    for seed in range(SEEDS):
        rows, busy = _fill(table, random.Random(seed))
        expected = _expected(rows, busy, 7)
        for window in (7, 9, 12, 30):
            taken, is_window_full = _claim(table, wanted=7, window=window, search=search)
            assert taken == expected[: len(taken)], (seed, window)
            assert is_window_full or taken == expected, (seed, window)
            full += is_window_full and taken != expected
    assert full, "some window was too small"


def test_a_plain_claim_leaves_out_what_others_have_locked(table: Session, database: str) -> None:
    table.execute(f"insert into {JOBS} (task_id, run_at) select 1, '2029-01-01' from generate_series(1, 5)")
    with psycopg.connect(database) as other:
        other.execute(f"select from {JOBS} where id in (1, 3) for update")
        assert _claim(table, wanted=2, search=ClaimStatement.PLAIN)[0] == [2, 4]
    assert _claim(table, wanted=2, search=ClaimStatement.PLAIN)[0] == [1, 2]


@pytest.mark.parametrize("search", [ClaimStatement.FRONT, ClaimStatement.BY_TASK])
def test_what_others_have_locked_is_left_out(table: Session, database: str, search: ClaimStatement) -> None:
    table.execute(f"insert into {QUEUES} (queue_name) values ('held'), ('free')")
    table.execute(
        f"insert into {JOBS} (task_id, job_queue_id, run_at) "
        f"select 1, queue, '2029-01-01' from unnest(array[null, null, 1, 2]::int[]) as queue"
    )
    with psycopg.connect(database) as other:
        other.execute(f"select from {JOBS} where id = 1 for update")
        other.execute(f"select from {QUEUES} where id = 1 for update")
        assert _claim(table, wanted=9, search=search)[0] == [2, 4]
    assert _claim(table, wanted=9, search=search)[0] == [1, 2, 3, 4]


@pytest.fixture
async def behind(table: Session, monkeypatch: pytest.MonkeyPatch) -> Claimer:
    """A claimer whose only job stands behind many others, and which has found it there."""
    monkeypatch.setattr(search, "SECONDS_OF_LOOKING_FURTHER", 3600.0)
    table.execute(f"insert into {QUEUES} (queue_name, locked_at) values ('busy', now())")
    table.execute(f"insert into {JOBS} (task_id, priority) select 2, -9 from generate_series(1, 500)")
    table.execute(f"insert into {JOBS} (task_id, priority, job_queue_id) select 1, -9, 1 from generate_series(1, 500)")
    table.execute(f"insert into {JOBS} (task_id) values (1)")
    claimer = await claimer_on(table)
    assert await _all(claimer) == [1001]
    assert [reading.statement for reading in table.readings][:3] == ["claim_jobs", "claim_jobs", "claim_jobs_by_task"]
    return claimer


async def _all(claimer: Claimer) -> list[int]:
    ids: list[int] = []
    while True:
        claims = (await claimer.claim(4)).claims
        ids += [claim.job_id for claim in claims]
        if not claims and not claimer.is_looking_further:
            return ids


@pytest.mark.parametrize(
    ("arrival", "found"),
    [
        ("insert into {jobs} (task_id, priority) values (1, -20)", 1002),
        ("insert into {jobs} (task_id, run_at) values (1, '2000-01-01')", 1002),
        ("insert into {jobs} (task_id, priority, run_at) values (1, -9, '2000-01-01')", 1002),
        ("update {jobs} set locked_at = null, locked_by = null, run_at = now() where id = 1001", 1001),
        ("update {jobs} set task_id = 1, priority = -9, run_at = '2000-01-01' where id = 7", 7),
        ("update {queues} set locked_at = null where id = 1", 501),
    ],
    ids=["at a better priority", "long overdue", "before all", "tried again", "moved", "in a queue that is free again"],
)
async def test_a_job_that_comes_in_front_later_is_found_by_the_next_claim(
    table: Session, behind: Claimer, arrival: str, found: int
) -> None:
    table.execute(arrival.format(jobs=JOBS, queues=QUEUES))
    assert await _all(behind) == [found]


async def test_tasks_that_were_cleaned_away_are_noticed_behind_others_too(table: Session, behind: Claimer) -> None:
    table.execute("delete from graphile_worker._private_tasks where identifier = 'mine'")
    assert await _all(behind) == []
    table.execute(
        f"insert into {JOBS} (task_id) select id from graphile_worker._private_tasks where identifier = 'mine'"
    )
    assert await _all(behind) == [1002]


async def test_the_front_is_looked_at_again_once_it_is_clear(
    table: Session, behind: Claimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.execute(f"delete from {JOBS}")
    monkeypatch.setattr("ferryman.worker.claiming.search.time.monotonic", lambda: float("inf"))
    table.readings.clear()
    assert await _all(behind) == []
    assert [reading.statement for reading in table.readings] == ["claim_jobs"]


async def test_a_thousand_busy_queues_with_many_jobs_hide_no_job(table: Session) -> None:
    table.execute(
        f"insert into {QUEUES} (queue_name, locked_at) select 'q' || n, now() from generate_series(1, 1000) n"
    )
    table.execute(f"insert into {JOBS} (task_id, job_queue_id) select 1, 1 + n % 1000 from generate_series(1, 5000) n")
    table.execute(f"insert into {QUEUES} (queue_name) values ('free')")
    table.execute(f"insert into {JOBS} (task_id, job_queue_id) values (1, 1001), (1, 1001), (1, null)")
    assert await _all(await claimer_on(table)) == [5001, 5003]


async def test_queues_behind_a_deep_one_wait_until_their_job_is_due(table: Session) -> None:
    table.execute(f"insert into {QUEUES} (queue_name) values ('deep'), ('due'), ('later')")
    table.execute(f"insert into {JOBS} (task_id, job_queue_id) select 1, 1 from generate_series(1, 500)")
    table.execute(f"insert into {JOBS} (task_id, job_queue_id) values (1, 2)")
    table.execute(f"insert into {JOBS} (task_id, job_queue_id, run_at) values (1, 3, now() + interval '1 hour')")
    assert await _all(await claimer_on(table)) == [1, 501]


async def test_a_worker_that_only_polls_finds_jobs_behind_others(database: str, connection: psycopg.Connection) -> None:
    app, ran = App(database), []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    connection.execute("insert into graphile_worker._private_tasks (identifier) values ('other')")
    connection.execute(f"insert into {JOBS} (task_id, priority) select 1, -9 from generate_series(1, 1000)")
    async with app.client() as client:
        await client.add_job(note.job(number=1))
        worker = worker_of(app, poll_interval=timedelta(milliseconds=50), use_notification_delivery=False)
        async with running(worker):
            await until(lambda: ran == [1], "the job behind the others runs")
            await client.add_job(note.job(number=2))
            await until(lambda: ran == [1, 2], "the job that came later runs")
