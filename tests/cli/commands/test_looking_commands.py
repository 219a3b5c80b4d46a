"""`ferryman jobs list`, `show` and `counts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ferryman import JobCounts, JobSpec, RawJobSpec
from ferryman.cli.output import counts_line

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from ferryman import SyncClient
    from tests.support.commands import Ran

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def some_jobs(sync_client: SyncClient) -> None:
    sync_client.add_raw_jobs(
        [
            RawJobSpec("mail", {}, JobSpec(queue_name="user:1", flags=["slow", "big"])),
            RawJobSpec("mail", {}, JobSpec(flags=["slow"])),
            RawJobSpec("resize", {}),
        ]
    )
    sync_client.permanently_fail_jobs([3])


@pytest.mark.usefixtures("some_jobs")
def test_the_list_begins_with_the_counts_and_has_a_line_for_each_job(ferryman: Callable[..., Ran]) -> None:
    lines = ferryman("jobs", "list").out.splitlines()

    assert lines[0] == "3 in all:  2 ready  0 scheduled  0 running  0 retrying  1 failed"
    assert lines[2].split()[:4] == ["id", "task", "queue", "state"]
    assert [line.split()[0] for line in lines[3:]] == ["1", "2", "3"]


@pytest.mark.usefixtures("some_jobs")
@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], [1, 2, 3]),
        (["--state", "failed"], [3]),
        (["--task", "mail"], [1, 2]),
        (["--queue", "user:1"], [1]),
        (["--key", "none"], []),
        (["--flag", "slow"], [1, 2]),
        (["--flag", "slow", "--flag", "big"], [1]),
        (["--after", "1"], [2, 3]),
        (["--task", "mail", "--limit", "1"], [1]),
    ],
)
def test_the_list_is_filtered(ferryman: Callable[..., Ran], options: list[str], ids: list[int]) -> None:
    assert ids == [job["id"] for job in ferryman("jobs", "list", *options, "--json").json["jobs"]]


@pytest.mark.usefixtures("some_jobs")
def test_a_page_says_how_to_get_the_next_one(ferryman: Callable[..., Ran]) -> None:
    first = ferryman("jobs", "list", "--limit", "2")
    last = ferryman("jobs", "list", "--limit", "2", "--after", "2")

    assert "add --after 2" in first.out
    assert "--after" not in last.out
    assert ferryman("jobs", "list", "--limit", "2", "--json").json["next_after"] == 2


def test_an_empty_list_says_so(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "list")

    assert ran.code == 0
    assert "No jobs to show." in ran.out


@pytest.mark.usefixtures("some_jobs")
def test_a_time_that_python_cannot_hold_is_shown_as_it_is(
    ferryman: Callable[..., Ran], connection: psycopg.Connection
) -> None:
    connection.execute("update graphile_worker._private_jobs set run_at = 'infinity' where id = 1")
    assert "infinity" in ferryman("jobs", "list").out.splitlines()[3]
    assert ferryman("jobs", "show", 1, "--json").json["run_at"] == "infinity"


def test_ids_are_whole_where_there_is_no_terminal(ferryman: Callable[..., Ran], connection: psycopg.Connection) -> None:
    connection.execute("alter table graphile_worker._private_jobs alter id restart with 9223372036854775807")
    ferryman("jobs", "add", "t" * 128, "--queue", "q" * 128, "--key", "k" * 512)

    line = ferryman("jobs", "list").out.splitlines()[3]

    assert line.split()[0] == "9223372036854775807"
    assert "t" * 128 in line
    assert "k" * 512 in line


def test_a_narrow_terminal_breaks_names_and_leaves_ids_and_times_whole(
    ferryman: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    ferryman("jobs", "add", "a_task_with_a_long_name", "--run-at", "2040-01-01T00:00:00Z")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")

    shown = ferryman("jobs", "list").out

    assert "a_task_with_a_long_name" not in shown
    assert "\x1b[36mscheduled\x1b[0m  2040-01-01T00:00:00Z  0/25             0" in shown


@pytest.mark.usefixtures("some_jobs")
def test_a_job_is_shown_whole(ferryman: Callable[..., Ran], connection: psycopg.Connection) -> None:
    connection.execute(
        "update graphile_worker._private_jobs set payload = %s, last_error = %s where id = 1",
        [f'{{"_trace":"00-{TRACE_ID}-{SPAN_ID}-01","a":[1.10]}}', "first\nsecond"],
    )

    shown = ferryman("jobs", "show", 1).out

    assert "flags       big, slow" in shown
    assert '{\n  "a": [\n    1.10\n  ]\n}' in shown
    assert f"trace       {TRACE_ID}" in shown
    assert "last error\nfirst\nsecond" in shown


@pytest.mark.usefixtures("some_jobs")
def test_a_running_job_shows_how_far_it_is(ferryman: Callable[..., Ran], connection: psycopg.Connection) -> None:
    connection.execute("update graphile_worker._private_jobs set locked_by = 'me', locked_at = now() where id = 1")
    connection.execute(
        "insert into graphile_worker._ferryman_progress"
        " select id, locked_by, locked_at, 0.25, 'page 5', now() from graphile_worker._private_jobs where id = 1"
    )

    assert "progress    25% page 5  (reported at 20" in ferryman("jobs", "show", 1).out
    assert ferryman("jobs", "show", 1, "--json").json["progress"]["fraction"] == 0.25
    assert ferryman("jobs", "show", 2, "--json").json["progress"] is None


def test_a_job_that_is_not_there_is_an_error(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("jobs", "show", 7)
    assert ran.code == 1
    assert "no job has the id 7" in ran.err

    assert ferryman("jobs", "show", 7, "--json").error["type"] == "NotFoundError"


@pytest.mark.usefixtures("some_jobs")
def test_jobs_are_counted_by_state(ferryman: Callable[..., Ran]) -> None:
    expected = {"ready": 2, "scheduled": 0, "running": 0, "retrying": 0, "failed": 1, "total": 3}
    assert expected == ferryman("jobs", "counts", "--json").json
    assert ferryman("jobs", "counts").out.startswith("3 in all:")


def test_a_state_that_no_job_is_in_has_no_colour() -> None:
    line = counts_line(JobCounts(ready=2, scheduled=0, running=0, retrying=0, failed=0))

    assert [span.style for span in line.spans if span.style] == ["bold", "green"]
    assert "red" in [span.style for span in counts_line(JobCounts(failed=1)).spans]


def test_a_narrow_terminal_shows_every_column(
    ferryman: Callable[..., Ran], sync_client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_client.add_raw_job("send_a_very_long_email", {}, JobSpec(queue_name="user:1", job_key="monthly"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "50")

    shown = ferryman("jobs", "list").out

    for name in ("task", "queue", "run at", "priority", "key", "monthly", "user:1"):
        assert name in shown
