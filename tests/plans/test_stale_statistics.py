"""Plans that were made while the table looked empty must not read the whole backlog that came later.

After each vacuum of a drained queue PostgreSQL takes the table for empty, and a worker keeps its plans. What a
statement reads is counted in buffers, which do not depend on how busy the machine is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style, load_statement
from ferryman.queries import working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ferryman.database.steps import Call

SCHEMA = SchemaName("graphile_worker")
BACKLOG = 30_000
CLAIM = 24
MOST_BUFFERS_PER_JOB = 60
"""Measured: 12 to 20. Reading the backlog once would cost more than 20 per job of the backlog."""


@pytest.fixture
def session(database: str) -> Iterator[psycopg.Cursor]:
    """A connection with the settings of a worker's, to a table that was vacuumed when it was empty."""
    with psycopg.connect(database, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        cursor = connection.cursor()
        cursor.execute(load_statement("ferryman.database", "steady_plans").text(SCHEMA, Style.NUMBERED))
        cursor.execute("insert into graphile_worker._private_tasks (identifier) values ('mine'), ('other')")
        cursor.execute("insert into graphile_worker._private_job_queues (queue_name) values ('q')")
        cursor.execute("insert into graphile_worker._private_jobs (task_id) values (1)")
        cursor.execute("vacuum analyze graphile_worker._private_jobs")
        cursor.execute("vacuum analyze graphile_worker._private_job_queues")
        yield cursor


def _claim(**changes: Any) -> Call:
    options = {"wanted": CLAIM, "window": 136, "now": None, "forbidden_flags": None}
    return working.claim_jobs("me", [1], **(options | changes))


def _run(session: psycopg.Cursor, call: Call) -> list[Any]:
    """Run a statement as a worker does: planned at its first run, for any parameters, and kept."""
    name = call.statement.name
    if session.execute("select count(*) from pg_prepared_statements where name = $1", [name]).fetchone() == (0,):
        session.execute(f"prepare {name} as {call.statement.text(SCHEMA, Style.NUMBERED)}")
    return session.execute(_execution(session, call)).fetchall()


def _buffers(session: psycopg.Cursor, call: Call) -> int:
    """What the statement reads with the plan that it has."""
    [(explained,)] = session.execute(f"explain (analyze, buffers, format json) {_execution(session, call)}").fetchall()
    plan = explained[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def _execution(session: psycopg.Cursor, call: Call) -> str:
    values = (sql.Literal(value).as_string(session) for value in call.statement.ordered(call.parameters))
    return f"execute {call.statement.name}({', '.join(values)})"


def _fill(session: psycopg.Cursor, columns: str, values: str) -> None:
    session.execute(
        f"insert into graphile_worker._private_jobs ({columns}) select {values} from generate_series(1, {BACKLOG}) as n"
    )


def _completing(rows: list[Any]) -> Call:
    return working.complete_claims("me", [(row[0], row[6], row[5] or 0) for row in rows])


def _failing(rows: list[Any]) -> Call:
    releases = [{"id": row[0], "token": row[6], "queue_id": row[5], "effect": "retry", "error": "no"} for row in rows]
    return working.release_claims("me", json.dumps(releases))


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("task_id", "1"),
        ("task_id, run_at, priority", "1, now() + interval '1 day', -1"),
        ("task_id, attempts", "1, 25"),
        ("task_id, locked_at, locked_by", "1, now(), 'somebody'"),
    ],
    ids=["ready", "due tomorrow at a better priority", "out of attempts", "running elsewhere"],
)
def test_a_claim_reads_no_more_than_it_takes(session: psycopg.Cursor, columns: str, values: str) -> None:
    _run(session, _claim())
    _fill(session, columns, values)
    session.execute("insert into graphile_worker._private_jobs (task_id) select 1 from generate_series(1, 1000)")

    buffers = _buffers(session, _claim())

    assert buffers < CLAIM * MOST_BUFFERS_PER_JOB


@pytest.mark.parametrize("settlement", [_completing, _failing])
def test_settling_reads_no_more_than_it_settles(
    session: psycopg.Cursor, settlement: Callable[[list[Any]], Call]
) -> None:
    _run(session, settlement(_run(session, _claim())))
    _fill(session, "task_id", "1")
    rows = _run(session, _claim())

    buffers = _buffers(session, settlement(rows))

    assert len(rows) == CLAIM
    assert buffers < CLAIM * MOST_BUFFERS_PER_JOB


def test_many_idle_queues_cost_a_claim_nothing(session: psycopg.Cursor) -> None:
    _run(session, _claim())
    session.execute(
        "insert into graphile_worker._private_job_queues (queue_name) "
        f"select 'q' || n from generate_series(1, {BACKLOG}) as n"
    )
    _fill(session, "task_id, job_queue_id", "1, 1 + n")

    buffers = _buffers(session, _claim())

    assert buffers < CLAIM * MOST_BUFFERS_PER_JOB
