"""Whatever mark others have left on a row: it is claimed as soon as it is free, whoever keeps a transaction open.

Claims do not try rows that a running transaction has marked. A mark that means nothing any more must not hide a row.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman.queries.claim import ClaimStatement
from ferryman.worker.claiming.claims import claimed_from_rows
from tests.support.measuring import JOBS, QUEUES, session
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ferryman.embedded import EmbeddedPostgres
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


def _claim(table: Session, search: ClaimStatement, *, wanted: int = 10) -> list[int]:
    call = search.value("me", [1], wanted=wanted, window=200, now=None, forbidden_flags=None)
    return [claim.job_id for claim in claimed_from_rows(table.run(call), "me").claims]


@pytest.mark.parametrize("behind", [0, 300])
@pytest.mark.parametrize("mark", FREE)
@pytest.mark.parametrize("search", ClaimStatement)
def test_a_row_with_a_mark_that_means_nothing_is_claimed(
    table: Session, database: str, search: ClaimStatement, mark: str, behind: int
) -> None:
    _put(table, behind)
    with ExitStack() as stack:
        _connect(database, stack).execute("select pg_current_xact_id()")  # and stays open
        FREE[mark](database, stack)
        _connect(database, stack).execute("select pg_current_xact_id()")
        taken = [*_claim(table, search), *_claim(table, search)]
    assert {*range(1, FRONT + 1)} <= {*taken}


@pytest.mark.parametrize("search", ClaimStatement)
async def test_rows_of_a_claim_whose_server_process_was_ended_are_claimed(
    table: Session, database: str, connection: psycopg.Connection, search: ClaimStatement
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


@pytest.mark.parametrize("search", ClaimStatement)
def test_rows_that_others_hold_are_left_and_those_behind_are_claimed(
    table: Session, database: str, search: ClaimStatement
) -> None:
    _put(table, 300)
    with ExitStack() as stack:
        _connect(database, stack).execute(LOCK)
        assert _claim(table, search) == [*range(FRONT + 1, FRONT + 11)]
    assert _claim(table, search)[:FRONT] == [*range(1, FRONT + 1)]


@pytest.mark.parametrize("search", ClaimStatement)
def test_a_row_that_was_changed_keeps_its_place_among_its_like(table: Session, search: ClaimStatement) -> None:
    """It stands elsewhere in the table and in its indexes. A claim that takes all still has it in the order of ids."""
    table.execute(f"insert into {JOBS} (task_id, run_at) select 1, '2020-01-01' from generate_series(1, 6)")
    table.execute(f"update {JOBS} set attempts = 1 where id = 2")
    assert _claim(table, search) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("search", "taken"),
    [(ClaimStatement.PLAIN, [1, 3, 4]), (ClaimStatement.FRONT, [1, 2, 3]), (ClaimStatement.BY_TASK, [1, 2, 3])],
)
def test_of_rows_alike_those_with_the_lowest_ids_are_taken_that_were_read(
    table: Session, search: ClaimStatement, taken: list[int]
) -> None:
    """A plain claim reads no more than it takes."""
    table.execute(f"insert into {JOBS} (task_id, run_at) select 1, '2020-01-01' from generate_series(1, 6)")
    table.execute(f"update {JOBS} set attempts = 1 where id = 2")
    assert _claim(table, search, wanted=3) == taken


# Numbers that stand for several transactions (multixacts) are counted apart from transactions, and may equal theirs


SHARERS = 12
SHARED_BY_ANY_OF_THEM = 2**SHARERS - 1
"""Rows that are each shared by others of the sharers: so many numbers are used for it, and few transactions."""


@pytest.fixture
def shared_numbers(own_server: EmbeddedPostgres) -> str:
    """A server whose next number for several transactions is far beyond the next transaction."""
    with ExitStack() as stack:
        sharers = [_connect(own_server.dsn, stack) for _ in range(SHARERS)]
        sharers[0].execute(f"create table numbers as select n from generate_series(1, {SHARED_BY_ANY_OF_THEM}) as n")
        sharers[0].commit()
        for bit, sharer in enumerate(sharers):
            sharer.execute("select from numbers where n >> %s & 1 = 1 for key share", (bit,))
    return own_server.dsn


def _use_transactions(dsn: str, until: int) -> None:
    """Let this be the number of the next transaction. One within another has a number too."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        [used] = connection.execute("select cast(cast(pg_current_xact_id() as text) as int)").fetchone() or ()
        connection.execute(
            f"""
            do $$ begin
                for number in 1..{until - used - 2} loop
                    begin insert into numbers values (0); exception when division_by_zero then end;
                end loop;
            end $$
            """
        )


@pytest.mark.parametrize("ahead", [0, 1, 99])
@pytest.mark.parametrize("search", ClaimStatement)
def test_a_row_whose_mark_stands_for_several_is_claimed_though_its_number_is_that_of_a_transaction(
    shared_numbers: str, search: ClaimStatement, ahead: int
) -> None:
    """The number of a transaction that stays open, or one that the next transactions will have."""
    with session(shared_numbers) as table, ExitStack() as stack:
        _put(table, 300)
        wanted = {*range(1, FRONT + 1)}
        if search is not ClaimStatement.PLAIN:
            table.execute(f"insert into {QUEUES} (queue_name) values ('q')")
            table.execute(f"update {JOBS} set job_queue_id = 1 where id = {FRONT}")
        others = [_connect(shared_numbers, stack) for _ in range(2)]
        for other in others:
            other.execute(SHARE)
            other.execute(f"select from {QUEUES} for key share")
        for other in others:
            other.rollback()
        marks = f"select distinct cast(cast(xmax as text) as int) from {JOBS} where id <= {FRONT}"
        [(mark,)] = table.cursor.execute(marks).fetchall()
        _use_transactions(shared_numbers, until=mark - ahead)
        opened = _connect(shared_numbers, stack).execute("select cast(cast(pg_current_xact_id() as text) as int)")
        assert opened.fetchone() == (mark - ahead,)
        taken = [*_claim(table, search), *_claim(table, search)]
    assert wanted <= {*taken}
