"""Every statement has one file and one function, and every part of one is included where it has what it needs."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ferryman
from ferryman import JobSpec, RescheduleJobOptions
from ferryman.cron import Crontab, CrontabTimer
from ferryman.cron.stored import columns_of
from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import load_statement
from ferryman.jobs import NewJob
from ferryman.queries import FOLDERS, Query
from ferryman.queries.__main__ import main
from ferryman.queries.inventory import all_queries, all_statements, callers

SOURCE = Path(ferryman.__file__).parent
QUERIES = SOURCE / "queries"
PARTS = {file.stem: file.read_text(encoding="utf-8") for file in sorted((QUERIES / "parts").glob("*.sql"))}
FILES = {file: file.read_text(encoding="utf-8") for file in sorted(SOURCE.rglob("*.sql"))}
INCLUDE = re.compile(r"^[ \t]*-- include: (.*)$", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*--.*$", re.MULTILINE)
HEAD = re.compile(r"\A-- needs: (.+)\n-- gives: (.+)\n-- \w")
IN_WORDS = {"a condition", "an expression", "a column", "columns", "a query"}

ARGUMENTS = {
    "str": "text",
    "int": 7,
    "float": 1.5,
    "bool": True,
    "datetime": datetime(2030, 1, 1, tzinfo=UTC),
    "timedelta": timedelta(seconds=1),
    "SchemaName": SchemaName("some"),
    "NewJob": NewJob("task", "{}", JobSpec()),
    "RescheduleJobOptions": RescheduleJobOptions(),
    "WatchStep": "keep",
    "Iterable[ClaimKey]": [(1, 2, 3)],
    "Iterable[tuple[int, int]]": [(1, 2)],
    "Iterable[tuple[str, int | None, bool]]": [("worker", 1, False)],
    "Sequence[tuple[str, datetime, float]]": [("worker", datetime(2030, 1, 1, tzinfo=UTC), 1.0)],
    "Mapping[str, Any]": {},
}


def test_every_file_has_one_function_and_every_function_a_file() -> None:
    found = Counter((each.folder, each.name) for each in all_statements())
    files = [file for folder in FOLDERS for file in (QUERIES / folder).glob("*.sql")]

    assert found == Counter((file.parent.name, file.stem) for file in files)
    assert len({name for _, name in found}) == len(found), "two statements of one name"
    assert {file.parent for file in QUERIES.rglob("*.sql")} == {QUERIES / folder for folder in (*FOLDERS, "parts")}


@pytest.mark.parametrize("query", [*all_queries()], ids=lambda query: query.__name__)
def test_a_function_gives_the_parameters_of_its_file(query: Query[Any]) -> None:
    assert query.statement.name == query.__name__
    arguments = {each.name: _argument(query, each) for each in inspect.signature(query).parameters.values()}
    call = query(**arguments)

    assert call.statement is query.statement
    assert set(call.parameters) == set(query.statement.parameters)
    assert len(query.statement.ordered(call.parameters)) == len(call.parameters)
    assert call.using is None
    assert call.on("a connection").using == "a connection"
    assert call.on(None) is call


def _argument(query: Query[Any], parameter: inspect.Parameter) -> Any:
    if parameter.name == "columns":
        return columns_of(Crontab(CrontabTimer(), "task"))
    wanted = parameter.annotation.removesuffix(" | None")
    if wanted in ARGUMENTS:
        return ARGUMENTS[wanted]
    if wanted.startswith("Sequence["):
        return []
    assert parameter.annotation.endswith(" | None"), (query, parameter)
    return None


def test_every_statement_is_used_and_says_what_it_does() -> None:
    used = callers()
    for each in all_statements():
        assert each.about, each.name
        assert any(used.get((each.folder, handle)) for handle in each.handles), f"nothing uses {each.name}"


def test_every_part_is_included_and_nothing_else_is() -> None:
    included = {match[1] for text in FILES.values() for match in INCLUDE.finditer(text)}

    assert included == {f"parts/{name}" for name in PARTS}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_says_what_it_needs_and_gives(name: str) -> None:
    head = HEAD.match(PARTS[name])

    assert head, "it begins with `-- needs:`, `-- gives:` and a sentence"
    body = COMMENT.sub("", _expanded(PARTS[name]))
    for given in head[2].split(", "):
        assert given in IN_WORDS or _defines(body, given), given


@pytest.mark.parametrize("file", [file for file in FILES if INCLUDE.search(FILES[file])], ids=lambda file: file.stem)
def test_what_a_part_needs_is_there_where_it_is_included(file: Path) -> None:
    text = FILES[file]
    head = HEAD.match(text)
    own = head[1].split(", ") if file.parent.name == "parts" and head else []
    for match in INCLUDE.finditer(text):
        part = HEAD.match(PARTS[match[1].removeprefix("parts/")])
        assert part
        above = COMMENT.sub("", _expanded(text[: match.start()]))
        around = above + COMMENT.sub("", _expanded(text[match.end() :]))
        for need in part[1].split(", "):
            # The name of a row may be given behind its columns; that of a CTE must stand above.
            is_there = _defines(around if need.startswith("row ") else above, need)
            assert need == "nothing" or need in own or is_there, f"{match[1]} needs {need}"


def _expanded(text: str) -> str:
    return INCLUDE.sub(lambda match: _expanded(PARTS[match[1].removeprefix("parts/")]), text)


def _ctes(text: str) -> list[str]:
    """The names of CTEs that a part defines."""
    return re.findall(r"^(\w+)(?: \(\w+\))? as (?:materialized )?\($", text, re.MULTILINE)


def _defines(text: str, name: str) -> bool:
    if name.startswith("row "):
        return re.search(rf"\b(as|from) {name.removeprefix('row ')}\b", text) is not None
    return name in _ctes(text)


def test_the_rule_of_superseded_jobs_is_written_once_and_stored_functions_have_the_same() -> None:
    rule = "job.flags -> 'ferryman:superseded'"
    assert [file for file, text in FILES.items() if rule in text] == [QUERIES / "parts" / "is_superseded.sql"]
    condition = " ".join(COMMENT.sub("", _expanded(PARTS["is_superseded"])).split())
    mark = " ".join(COMMENT.sub("", PARTS["superseded_claim"]).split())
    [trigger, recovers] = (
        " ".join(load_statement("ferryman.schema", f"sql/extensions/{name}").template.split())
        for name in ("_ferryman_mark_superseded", "recover_dead_worker_jobs")
    )

    assert condition in recovers
    assert f"'ferryman:superseded', {mark}" in trigger


@pytest.mark.parametrize("name", ["is_superseded", "superseded_claim"])
def test_the_text_of_stored_functions_is_what_installed_schemas_have(name: str) -> None:
    """A change needs a new extension: schemas that are installed keep the function that they have."""
    text = " ".join(COMMENT.sub("", _expanded(PARTS[name])).split())

    assert (
        text
        == {
            "is_superseded": (
                "( job.attempts >= job.max_attempts and case when exists ( "
                "select from pg_catalog.pg_trigger as installed where "
                "installed.tgrelid = job.tableoid and installed.tgname = '_ferryman_mark_superseded' ) "
                "then job.flags -> 'ferryman:superseded' is not distinct from "
                "jsonb_build_array(job.locked_by, job.locked_at at time zone 'UTC') "
                "else job.key is null and job.updated_at > job.locked_at end )"
            ),
            "superseded_claim": "jsonb_build_array(job.locked_by, job.locked_at at time zone 'UTC')",
        }[name]
    )


def test_the_command_lists_statements_with_their_callers(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    lines = capsys.readouterr().out.splitlines()

    assert [line for line in lines if not line.startswith(" ")] == [f"{folder}/" for folder in FOLDERS]
    [line] = [line for line in lines if line.split()[0] == "complete_claims"]
    assert line.split(maxsplit=1)[1] == "Delete completed jobs.  [leases, worker.settling.writers]"


def test_the_command_refuses_names_that_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nosuch"])
    assert "no statement is named 'nosuch'" in capsys.readouterr().err

    with pytest.raises(SystemExit):
        main(["claim_jobs", "--schema", "pg_mine"])
    assert "starts with 'pg_'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["claim_jobs"]])
def test_the_command_ends_quietly_if_nobody_reads_what_it_prints(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as output:
        monkeypatch.setattr(sys, "stdout", output)

        with pytest.raises(SystemExit) as ended:
            main(arguments)

    assert ended.value.code == 1
