"""Whatever mark others have left on a row: it is claimed as soon as it is free, whoever keeps a transaction open.

Claims do not try rows that a running transaction has marked. A mark that means nothing any more must not hide a row.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman.queries import working
from ferryman.queries.working import Search
from ferryman.worker.claims import claimed_from_rows
from tests.support.measuring import JOBS, session
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.measuring import Session

pytestmark = pytest.mark.claims

FRONT = 5
LOCK = f"select from {JOBS} where id <= {FRONT} for update"
SHARE = f"select from {JOBS} where id <= {FRONT} for key share"
CLAIM = f"update {JOBS} set locked_by = 'rival', locked_at = now() where id <= {FRONT}"


def _connect(dsn: str, stack: ExitStack) -> psycopg.Connection:
    return stack.enter_context(psycopg.connect(dsn))


def _ended(*statements: str, by: str) -> Callable[[str, ExitStack], None]:
    """A transaction that marks the rows, and has ended."""

    def leave(dsn: str, stack: ExitStack) -> None:
        other = _connect(dsn, stack)
        for statement in statements:
            other.execute(statement)
        other.execute(by)

    return leave


def _rolled_back_savepoint(dsn: str, stack: ExitStack) -> None:
    other = _connect(dsn, stack)
    for statement in ("select pg_current_xact_id()", "savepoint a", CLAIM, "rollback to savepoint a"):
        other.execute(statement)


def _shared_and_released(dsn: str, stack: ExitStack) -> None:
    """Two at once make a number that stands for both."""
    others = [_connect(dsn, stack) for _ in range(2)]
    for other in others:
        other.execute(SHARE)
    for other in others:
        other.rollback()


def _released_after_an_update(dsn: str, stack: ExitStack) -> None:
    """Marked by one who changes it, and shared by another before: a number that stands for an update."""
    one, two = (_connect(dsn, stack) for _ in range(2))
    one.execute(SHARE)
    two.execute(f"update {JOBS} set flags = null where id <= {FRONT}")
    two.rollback()
    one.rollback()


FREE = {
    "nothing": lambda _dsn, _stack: None,
    "a lock that was released": _ended(LOCK, by="commit"),
    "a lock that was rolled back": _ended(LOCK, by="rollback"),
    "a claim that was rolled back": _ended(CLAIM, by="rollback"),
    "a savepoint that was rolled back": _rolled_back_savepoint,
    "shared locks that were released": _shared_and_released,
    "shared locks and a change that was rolled back": _released_after_an_update,
}


@pytest.fixture
def table(database: str) -> Iterator[Session]:
    with session(database) as opened:
        yield opened


def _put(table: Session, behind: int) -> None:
    table.execute(
        f"insert into {JOBS} (task_id, run_at) select 1, timestamptz '2020-01-01' + n * interval '1 second'"
        f" from generate_series(1, {FRONT + behind}) as n"
    )


def _claim(table: Session, search: Search, *, wanted: int = 10) -> list[int]:
    call = working.claim_jobs("me", [1], wanted=wanted, window=200, now=None, forbidden_flags=None, search=search)
    return [claim.job_id for claim in claimed_from_rows(table.run(call), "me").claims]


@pytest.mark.parametrize("behind", [0, 300])
@pytest.mark.parametrize("mark", FREE)
@pytest.mark.parametrize("search", Search)
def test_a_row_with_a_mark_that_means_nothing_is_claimed(
    table: Session, database: str, search: Search, mark: str, behind: int
) -> None:
    _put(table, behind)
    with ExitStack() as stack:
        _connect(database, stack).execute("select pg_current_xact_id()")  # and stays open
        FREE[mark](database, stack)
        _connect(database, stack).execute("select pg_current_xact_id()")
        taken = [*_claim(table, search), *_claim(table, search)]
    assert {*range(1, FRONT + 1)} <= {*taken}


@pytest.mark.parametrize("search", Search)
async def test_rows_of_a_claim_whose_server_process_was_ended_are_claimed(
    table: Session, database: str, connection: psycopg.Connection, search: Search
) -> None:
    _put(table, 0)
    with ExitStack() as stack:
        _connect(database, stack).execute("select pg_current_xact_id()")
        victim = psycopg.connect(database)
        stack.callback(victim.close)
        victim.execute(CLAIM)
        process = victim.info.backend_pid
        connection.execute("select pg_terminate_backend(%s)", (process,))
        alive = "select from pg_stat_activity where pid = %s"
        await until(lambda: connection.execute(alive, (process,)).fetchone() is None, "it is gone")
        assert _claim(table, search) == [*range(1, FRONT + 1)]


@pytest.mark.parametrize("search", Search)
def test_rows_that_others_hold_are_left_and_those_behind_are_claimed(
    table: Session, database: str, search: Search
) -> None:
    _put(table, 300)
    with ExitStack() as stack:
        _connect(database, stack).execute(LOCK)
        assert _claim(table, search) == [*range(FRONT + 1, FRONT + 11)]
    assert _claim(table, search)[:FRONT] == [*range(1, FRONT + 1)]


@pytest.mark.parametrize("search", Search)
def test_a_row_that_was_changed_keeps_its_place_among_its_like(table: Session, search: Search) -> None:
    """It stands elsewhere in the table and in its indexes. A claim that takes all still has it in the order of ids."""
    table.execute(f"insert into {JOBS} (task_id, run_at) select 1, '2020-01-01' from generate_series(1, 6)")
    table.execute(f"update {JOBS} set attempts = 1 where id = 2")
    assert _claim(table, search) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("search", "taken"), [(Search.PLAIN, [1, 3, 4]), (Search.FRONT, [1, 2, 3]), (Search.BY_TASK, [1, 2, 3])]
)
def test_of_rows_alike_those_with_the_lowest_ids_are_taken_that_were_read(
    table: Session, search: Search, taken: list[int]
) -> None:
    """A plain claim reads no more than it takes."""
    table.execute(f"insert into {JOBS} (task_id, run_at) select 1, '2020-01-01' from generate_series(1, 6)")
    table.execute(f"update {JOBS} set attempts = 1 where id = 2")
    assert _claim(table, search, wanted=3) == taken
