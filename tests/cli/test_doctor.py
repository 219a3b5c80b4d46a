"""`ferryman doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ferryman import JobSpec
from tests.support.sick_server import fresh_database, joined_server
from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from ferryman import SyncClient
    from ferryman.embedded import EmbeddedPostgres
    from tests.support.commands import Ran


@pytest.fixture(scope="session")
def sick_server(server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    """A server on which all is well to begin with: that of the other tests has no autovacuum."""
    with joined_server(server) as started:
        yield started


@pytest.fixture
def database(sick_server: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(sick_server) as dsn:
        yield dsn


@pytest.fixture
def tables(connection: psycopg.Connection) -> Tables:
    return Tables(connection)


@pytest.fixture
def dangling(tables: Tables) -> Tables:
    """A job whose queue was deleted, another one whose queue stands still, and a report of progress of nobody's."""
    tables.add_job(queue_name="q")
    tables.query("delete from graphile_worker._private_job_queues")
    tables.add_job(queue_name="wedged")
    tables.lock_queue("wedged", "worker-1", "5 hours")
    tables.query("insert into graphile_worker._ferryman_progress values (77, 'w', now(), 0.5, null, now())")
    return tables


def test_a_healthy_queue_is_told_in_a_line_for_each_check_and_ends_with_0(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("doctor")

    assert ran.code == 0
    assert "ok       dangling jobs: every job has its task and queue\n" in ran.out
    assert ran.out.endswith("\n\nAll is well.\n")


def test_the_document_has_the_same_shape_whatever_is_found(ferryman: Callable[..., Ran], dangling: Tables) -> None:
    document = ferryman("doctor", "--json").json

    assert list(document) == ["schema", "healthy", "severity", "findings", "repaired"]
    assert (document["schema"], document["healthy"], document["severity"]) == ("graphile_worker", False, "error")
    for finding in document["findings"]:
        assert list(finding) == ["check", "severity", "seen", "meaning", "remedies", "repair", "facts"]
    repairs = {finding["repair"] for finding in document["findings"]}
    assert repairs == {None, "dangling-queues", "wedged-queues", "leftovers"}
    assert document["repaired"] == []


def test_a_sick_queue_ends_with_1_and_says_what_it_means_and_what_to_do(
    ferryman: Callable[..., Ran], dangling: Tables
) -> None:
    ran = ferryman("doctor")

    assert ran.code == 1
    assert "error    dangling jobs: 1 job (1): the row of their queue was deleted\n" in ran.out
    assert "         No worker ever claims such a job, and it never fails." in ran.out
    assert "         > ferryman doctor --fix\n" in ran.out
    assert ran.out.endswith("\n\nFindings that need attention: 2. Some can be mended here: ferryman doctor --fix\n")


def test_a_notice_is_no_reason_to_fail(ferryman: Callable[..., Ran], sync_client: SyncClient) -> None:
    sync_client.permanently_fail_jobs([sync_client.add_raw_job("mail").id])

    ran = ferryman("doctor")

    assert ran.code == 0
    assert "notice   failed jobs: 1 job failed for good: mail (1)\n" in ran.out
    assert ran.out.endswith("\n\nNothing is worse than a notice.\n")


def test_fix_says_what_it_will_do_and_asks(ferryman: Callable[..., Ran], dangling: Tables) -> None:
    before = dangling.query("select * from graphile_worker._private_job_queues")

    ran = ferryman("doctor", "--fix", stdin="n\n")

    assert ran.code == 1
    assert "Free queues that are locked by a worker that is gone and has no job in them.\n" in ran.err
    assert "Mend? [y/N]" in ran.err
    assert dangling.query("select * from graphile_worker._private_job_queues") == before


def test_fix_mends_and_looks_again(ferryman: Callable[..., Ran], dangling: Tables) -> None:
    ran = ferryman("doctor", "--fix", stdin="y\n")

    assert ran.code == 0
    assert "Made queues: ferryman-lost-queue-1\n" in ran.out
    assert "Freed queues: wedged\n" in ran.out
    assert "Deleted leftovers: 1\n" in ran.out
    assert ran.out.endswith("All is well.\n")
    assert ferryman("doctor", "--fix", "--yes").out.startswith("There was nothing to mend.\n")


def test_fix_with_yes_does_not_ask_and_tells_programs_what_it_did(
    ferryman: Callable[..., Ran], dangling: Tables
) -> None:
    document = ferryman("doctor", "--fix", "--yes", "--json").json

    assert document["healthy"]
    assert document["repaired"] == [
        {"repair": "dangling-queues", "number": 1, "names": ["ferryman-lost-queue-1"]},
        {"repair": "wedged-queues", "number": 1, "names": ["wedged"]},
        {"repair": "leftovers", "number": 1, "names": []},
    ]


def test_unused_tasks_are_deleted_only_when_asked_for(
    ferryman: Callable[..., Ran], connection: psycopg.Connection
) -> None:
    connection.execute(
        "insert into graphile_worker._private_tasks (identifier) select 't' || n from generate_series(1, 1000) n"
    )

    assert ferryman("doctor", "--fix", "--yes", "--json").json["repaired"] == []

    [done] = ferryman("doctor", "--fix", "--tasks", "--yes", "--json").json["repaired"]
    assert (done["repair"], done["number"]) == ("unused-tasks", 1000)


def test_tasks_without_fix_is_a_usage_error(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("doctor", "--tasks")

    assert ran.code == 2
    assert "give it together with --fix" in ran.err


def _deduplicates(tables: Tables) -> bool:
    query = "select reloptions from pg_class where oid = 'graphile_worker.jobs_key_key1'::regclass"
    return "deduplicate_items=off" not in (tables.query(query)[0]["reloptions"] or ())


def test_tuning_says_what_it_costs_and_what_it_runs_and_asks(ferryman: Callable[..., Ran], tables: Tables) -> None:
    tables.query("insert into graphile_worker._private_tasks (identifier) values ('task')")
    tables.query(
        "insert into graphile_worker._private_jobs (task_id, payload, key)"
        " select task.id, '{}', case when n > 90000 then 'key ' || n end"
        " from graphile_worker._private_tasks as task, generate_series(1, 90001) as n"
    )

    ran = ferryman("doctor", "--tune", "key-index", stdin="n\n")

    assert ran.code == 1
    assert "will no longer deduplicate its entries" in ran.err
    assert "with 90,001 jobs, 90,000 of them without a key, for which it would take about 1.9 MB.\n" in ran.err
    assert '> alter index "graphile_worker".jobs_key_key1 set (deduplicate_items = off);\n' in ran.err
    assert "Change the index? [y/N]" in ran.err
    assert "nothing was changed" in ran.err
    assert _deduplicates(tables)


def test_tuning_and_untuning_can_be_repeated(ferryman: Callable[..., Ran], tables: Tables) -> None:
    ran = ferryman("doctor", "--tune", "key-index", stdin="y\n")

    assert ran.code == 0
    assert ran.out.startswith("Done: jobs_key_key1 does not deduplicate its entries from now on.\n> alter index ")
    assert not _deduplicates(tables)
    again = ferryman("doctor", "--tune", "key-index")  # nobody is asked
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("Nothing to do: jobs_key_key1 does not deduplicate its entries already.")
    assert "key index: jobs_key_key1: 8.2 kB, tuned not to deduplicate\n" in ferryman("doctor").out

    back = ferryman("doctor", "--untune", "key-index", "--yes")

    assert back.out.startswith("Done: jobs_key_key1 deduplicates its entries from now on.\n")
    assert _deduplicates(tables)


def test_tuning_tells_programs_what_it_did(ferryman: Callable[..., Ran]) -> None:
    assert ferryman("doctor", "--tune", "key-index", "--yes", "--json").json == {
        "tuning": "key-index",
        "was_on": False,
        "is_on": True,
        "statement": 'alter index "graphile_worker".jobs_key_key1 set (deduplicate_items = off);',
        "size": 8192,
        "expected_size": 8192,
        "jobs": 0,
        "keyless_jobs": 0,
    }


def test_fix_never_tunes(ferryman: Callable[..., Ran], dangling: Tables) -> None:
    ferryman("doctor", "--fix", "--tasks", "--yes")

    assert _deduplicates(dangling)


@pytest.mark.parametrize("other", [["--fix"], ["--untune", "key-index"]])
def test_tuning_is_done_alone(ferryman: Callable[..., Ran], tables: Tables, other: list[str]) -> None:
    ran = ferryman("doctor", "--tune", "key-index", "--yes", *other)

    assert ran.code == 2
    assert "give one of them, alone" in ran.err
    assert _deduplicates(tables)


def test_names_from_the_database_cannot_move_the_cursor(
    ferryman: Callable[..., Ran], sync_client: SyncClient, tables: Tables
) -> None:
    sync_client.add_raw_job("task", {}, JobSpec(queue_name="q\x1b[2J\n"))
    tables.query("update graphile_worker._private_job_queues set locked_by = E'w\\x1b[1m', locked_at = now()")

    ran = ferryman("doctor")

    assert "\x1b" not in ran.out
    assert r"q\x1b[2J\n (by w\x1b[1m)" in ran.out


def test_a_database_that_cannot_be_reached_is_one_error(run: Callable[..., Ran]) -> None:
    ran = run("doctor", "--database-url", "postgresql://nobody@127.0.0.1:1/none", "--json")

    assert ran.code == 1
    assert ran.error["type"] == "NotConnectedError"
