"""What `python -m ferryman.queries NAME` prints is what is sent, and psql can run it."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style
from ferryman.queries.__main__ import main
from ferryman.queries.inventory import Listed, all_statements
from ferryman.queries.printing import for_psql, sent

SCHEMA = SchemaName("graphile_worker")
STATEMENTS = [*all_statements()]
COMMENT = re.compile(r"^[ \t]*--.*\n?|[ \t]+-- .*$", re.MULTILINE)
JOBS = "graphile_worker._private_jobs"
CLAIM = {
    "worker_id": "'me'", "task_ids": "'{1}'", "wanted": "2", "window": "64", "done_tokens": "'{}'",
    "done_job_ids": "'{}'", "done_count": "0", "durable": "true",
}  # fmt: skip


@pytest.mark.parametrize("listed", STATEMENTS, ids=lambda listed: listed.name)
def test_what_is_printed_is_what_is_sent(listed: Listed) -> None:
    printed = COMMENT.sub("", sent(listed.statement, SCHEMA)).strip()

    assert printed == listed.statement.text(SCHEMA, Style.NUMBERED)


def test_postgresql_prepares_every_printed_statement(database: str) -> None:
    """Up to the `explain`: most statements want other values than null."""
    prepared = []
    with psycopg.connect(database, autocommit=True, prepare_threshold=None) as connection:
        for listed in STATEMENTS:
            printed = "\n".join(for_psql(listed.statement, SCHEMA))
            before, is_prepared, _ = printed.partition("\nbegin;\n")
            if is_prepared:
                connection.execute(before.encode())
                prepared.append(listed.name)
        known = connection.execute("select name from pg_prepared_statements").fetchall()

    assert sorted(prepared) == sorted(name for (name,) in known)
    others = {listed.name for listed in STATEMENTS} - {*prepared}
    assert others == {"listen", "lock_tasks", "lock_queues", "tune_key_index", "untune_key_index"}


@pytest.mark.parametrize("name", ["claim_plain_jobs", "claim_jobs", "claim_jobs_by_task"])
def test_a_claim_is_explained_and_taken_back(database: str, capsys: pytest.CaptureFixture[str], name: str) -> None:
    main([name, "--psql"])
    filled = _filled(capsys.readouterr().out, CLAIM)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("insert into graphile_worker._private_tasks (identifier) values ('task')")
        connection.execute(f"insert into {JOBS} (task_id) select 1 from generate_series(1, 5)")

        plan = _answers(connection.execute(filled.encode()))

        assert re.search(r"CTE claimed\n +->  Update on _private_jobs job\w* .*\(actual .*rows=2\b", plan), plan
        assert "Buffers: " in plan
        assert connection.execute(f"select count(*) from {JOBS} where locked_at is not null").fetchone() == (0,)


def _answers(cursor: psycopg.Cursor) -> str:
    """The rows of all statements of a script."""
    lines = []
    while True:
        if cursor.description:
            lines += [str(value) for row in cursor.fetchall() for value in row]
        if not cursor.nextset():
            return "\n".join(lines)


def _filled(printed: str, values: dict[str, Any]) -> str:
    for name, value in values.items():
        printed, number = re.subn(rf"null(,?  -- \$\d+ += :{name} )", rf"{value}\1", printed)
        assert number == 1, name
    return printed
