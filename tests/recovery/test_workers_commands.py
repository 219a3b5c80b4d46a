"""`ferryman workers …`, and the crash story of `ferryman jobs show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.commands import run_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.commands import Ran
    from tests.support.tables import Tables


@pytest.fixture
def ferryman(long_up: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run `ferryman` on a database that has been up for long."""
    monkeypatch.setenv("DATABASE_URL", long_up)
    return run_here


def test_list_shows_who_is_alive_who_is_stale_and_who_was_lost(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    tables.held_job(tables.worker("dead"))
    ferryman("workers", "recover")
    tables.worker("alive", "1 second", host="box", pid=7, tasks=["a", "b"])
    tables.worker("stale", "6 minutes")
    ran = ferryman("workers", "list")
    lines = [line.split() for line in ran.out.splitlines()]
    assert ran.code == 0
    assert any(line[:2] == ["alive", "alive"] and line[-3:] == ["box", "7", "2"] for line in lines)
    assert any(line[:2] == ["stale", "stale"] for line in lines)
    assert any(line[:2] == ["dead", "silent"] and line[-2:] == ["1", "job"] for line in lines)


def test_list_as_json_has_every_field(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    tables.worker("w", "90 seconds", host="box")
    (worker,) = ferryman("workers", "list", "--threshold", "1m", "--json").json["active"]
    assert (worker["worker_id"], worker["is_stale"], worker["metadata"]) == (
        "w",
        True,
        {"host": "box", "beat_interval": 0},
    )
    assert ferryman("workers", "list", "--threshold", "2m", "--json").json["active"][0]["is_stale"] is False


def test_list_says_why_there_may_be_nobody(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("workers", "list")
    assert (ran.code, ran.out) == (
        0,
        "No worker is registered. Workers without recovery, and Node's, do not register.\n",
    )


def test_recover_gives_the_jobs_back_and_says_which(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    job_id = tables.held_job(tables.worker(prefetches=False))
    ran = ferryman("workers", "recover", "--delay", "1h")
    assert ran.code == 0
    assert ran.out.startswith("Dead: dead.\nRecovered 1 job:\n")
    assert ran.out.splitlines()[-1].split() == [str(job_id), "task", "requeue", "1", "yes", "dead", "silent"]
    job = tables.job(job_id)
    assert (job["locked_by"], (job["run_at"] - job["updated_at"]).total_seconds()) == (None, 3600)


def test_a_dry_run_only_tells(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    job_id = tables.held_job(tables.worker())
    ran = ferryman("workers", "recover", "--dry-run")
    assert "Would recover 1 job:" in ran.out
    assert tables.job(job_id)["locked_by"] == "dead"
    document = ferryman("workers", "recover", "--dry-run", "--json").json
    assert (document["worker_ids"], document["recovered_count"], document["dry_run"]) == (["dead"], 0, True)
    assert [each["decision"] for each in document["recoveries"]] == ["requeue"]


def test_recover_takes_a_threshold(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    tables.held_job(tables.worker("dead", "2 minutes"))
    assert ferryman("workers", "recover").out == "No dead worker was found.\n"
    assert ferryman("workers", "recover", "--threshold", "1m").out.startswith("Dead: dead.")


def test_recover_of_a_named_worker_asks_first(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    job_id = tables.held_job("worker-0f3a9c", age="1 second")
    refused = ferryman("workers", "recover", "--worker", "worker-0f3a9c", stdin="n\n")
    assert (refused.code, "run twice" in refused.err) == (1, True)
    assert tables.job(job_id)["locked_by"] == "worker-0f3a9c"
    assert ferryman("workers", "recover", "--worker", "worker-0f3a9c", "--yes").code == 0
    assert tables.job(job_id)["locked_by"] is None


def test_recover_says_when_another_sweep_is_under_way(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    with tables.connection.transaction():
        tables.query("select pg_advisory_xact_lock(%s, hashtext('graphile_worker'))", 0x46525357)
        ran = ferryman("workers", "recover")
    assert (ran.code, ran.out.startswith("Another sweep is running")) == (1, True)


def test_a_span_that_is_none_is_refused(ferryman: Callable[..., Ran]) -> None:
    ran = ferryman("workers", "recover", "--threshold", "soon")
    assert (ran.code, "Give 90s, 5m or 1h30m" in ran.err) == (2, True)


def test_unlock_is_at_home_here_too(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    job_id = tables.held_job("worker-0f3a9c")
    assert ferryman("workers", "unlock", "worker-0f3a9c", "--yes").code == 0
    assert tables.job(job_id)["locked_by"] is None


def test_show_tells_the_story_of_crashes(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    job_id = tables.held_job(tables.worker(prefetches=False))
    tables.crashed_before(job_id, started=None, worker="first")
    ferryman("workers", "recover")
    tables.crashed_before(job_id, worker="parent", reason="child process died", age="0 seconds")
    told = ferryman("jobs", "show", job_id).out.partition("\ncrashes\n")[2].splitlines()
    assert "attempt 1: first was lost before or while the job ran (silent); requeue, by somebody" in told[0]
    assert "attempt 1: dead was lost while the job ran (silent); requeue, by client " in told[1]
    assert "attempt 1: the job's child process died in worker parent; requeue" in "".join(told)
    crashes = ferryman("jobs", "show", job_id, "--json").json["crashes"]
    assert [crash["worker_id"] for crash in crashes] == ["first", "dead", "parent"]


def test_show_works_where_no_crashes_are_written_down(tables: Tables, ferryman: Callable[..., Ran]) -> None:
    job_id = tables.add_job()["id"]
    tables.query("drop table graphile_worker._ferryman_crashes")
    ran = ferryman("jobs", "show", job_id, "--json")
    assert (ran.code, ran.json["crashes"]) == (0, [])


def test_recover_names_who_never_registered_and_frees_their_jobs_on_demand(
    tables: Tables, ferryman: Callable[..., Ran]
) -> None:
    job_id = tables.held_job("worker-1", age="2 hours")
    ran = ferryman("workers", "recover")
    assert "No dead worker was found." in ran.out
    assert "never registered" in ran.out
    assert any(line.split()[:2] == ["worker-1", str(job_id)] for line in ran.out.splitlines())
    [told] = ferryman("workers", "recover", "--json").json["unregistered"]
    assert (told["worker_id"], told["job_ids"]) == ("worker-1", [job_id])
    freed = ferryman("workers", "recover", "--unregistered-lock-timeout", "1h", "--json")
    assert freed.json["worker_ids"] == ["worker-1"]
    assert tables.job(job_id)["locked_by"] is None
