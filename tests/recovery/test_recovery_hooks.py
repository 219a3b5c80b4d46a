"""Hooks decide about each job of a dead worker, and get the events of its recovery."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from math import exp
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Client, SyncClient
from ferryman.errors import ConfigurationError
from ferryman.hooks import (
    FailureReason,
    HookRegistry,
    JobInterrupted,
    JobPermanentlyFail,
    JobRecovery,
    JobRecoveryResult,
    WorkerRecovered,
)
from ferryman.recovery.sweep_results import SweepStaleWorkersOptions
from tests.support.logs import logged
from tests.support.sweeps import sweep_as_worker

if TYPE_CHECKING:
    from tests.support.tables import Tables

RECOVERED = "Job recovered after worker interruption"
TOMORROW = datetime(2100, 1, 1, tzinfo=UTC)


def answering(answer: JobRecoveryResult | None) -> HookRegistry:
    """Hooks that answer the same about each job."""
    hooks = HookRegistry()
    hooks.on(JobRecovery, lambda _event: answer)
    return hooks


async def test_a_hook_receives_the_job_both_workers_and_the_reason(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(), payload={"n": 1})
    asked: list[JobRecovery] = []
    hooks = HookRegistry()
    hooks.on(JobRecovery, asked.append)
    await sweep_as_worker(sweeper, hooks=hooks)
    (event,) = asked
    assert (event.job.id, event.job.payload, event.job.attempts, event.job.locked_by) == (job_id, {"n": 1}, 1, "dead")
    assert (event.worker_id, event.previous_worker_id) == ("sweeper", "dead")
    assert event.reason is FailureReason.WORKER_CRASHED


async def test_hooks_of_a_client_are_asked_when_it_sweeps(tables: Tables, long_up: str) -> None:
    tables.held_job(tables.worker())
    async with Client(long_up, hooks=answering(JobRecoveryResult.Skip())) as client:
        assert (await client.sweep_stale_workers()).recovered_count == 0


async def test_hooks_hear_whether_the_job_had_started(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail", "marked")
    tables.worker(prefetches=True)
    expected = {tables.held_job(identifier="marked"): True, tables.held_job(identifier="marked"): False}
    tables.mark(next(iter(expected)))
    expected[tables.held_job(identifier="requeued")] = None
    hooks, heard = HookRegistry(), {}
    hooks.on(JobRecovery, lambda event: heard.update({event.job.id: event.started}))
    await sweep_as_worker(sweeper, hooks=hooks)
    assert heard == expected


@pytest.mark.parametrize("answer", [None, JobRecoveryResult.Default()])
async def test_default_recovers_the_job_as_configured(
    tables: Tables, sweeper: Client, answer: JobRecoveryResult | None
) -> None:
    job_id = tables.held_job(tables.worker(), queue_name="q")
    await sweep_as_worker(sweeper, hooks=answering(answer))
    job = tables.job(job_id)
    assert (job["locked_by"], job["attempts"], job["last_error"]) == (None, 0, RECOVERED)
    assert job["run_at"] - job["updated_at"] == timedelta(seconds=30)
    assert tables.queue("q")["locked_by"] is None


async def test_default_follows_the_policy_of_the_task(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    job_id = tables.held_job(tables.worker())
    await sweep_as_worker(sweeper, hooks=answering(JobRecoveryResult.Default()))
    assert tables.job(job_id)["attempts"] == 25


@pytest.mark.parametrize(("attempts", "expected"), [(None, 4), (2, 2), (0, 0)])
async def test_reschedule_unlocks_the_job_sets_run_at_and_may_replace_the_attempts(
    tables: Tables, sweeper: Client, attempts: int | None, expected: int
) -> None:
    job_id = tables.held_job(tables.worker(), queue_name="q")
    tables.set(job_id, attempts=5)
    result = await sweep_as_worker(sweeper, hooks=answering(JobRecoveryResult.Reschedule(TOMORROW, attempts)))
    job = tables.job(job_id)
    assert [each.decision for each in result.recoveries] == ["reschedule"]
    assert (job["locked_by"], job["run_at"], job["attempts"]) == (None, TOMORROW, expected)
    assert tables.queue("q")["locked_by"] is None


async def test_fail_with_backoff_uses_the_attempt_up_with_worker_crashed_as_the_error(
    tables: Tables, sweeper: Client
) -> None:
    job_id = tables.held_job(tables.worker(), queue_name="q")
    result = await sweep_as_worker(sweeper, hooks=answering(JobRecoveryResult.FailWithBackoff()))
    job = tables.job(job_id)
    assert [each.decision for each in result.recoveries] == ["backoff"]
    assert (job["locked_by"], job["attempts"]) == (None, 1)
    assert job["last_error"].startswith("WorkerCrashed: ")
    assert (job["run_at"] - job["updated_at"]).total_seconds() == pytest.approx(exp(1), abs=1e-3)
    assert tables.queue("q")["locked_by"] is None


async def test_skip_leaves_the_job_locked_and_uncounted(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(), queue_name="q")
    before = tables.job(job_id)
    result = await sweep_as_worker(sweeper, hooks=answering(JobRecoveryResult.Skip()))
    assert result.recovered_count == 0
    assert (tables.job(job_id), tables.crashes()) == (before, [])
    assert tables.queue("q")["locked_by"] == "dead"


@pytest.mark.parametrize("answer", [JobRecoveryResult.Skip, JobRecoveryResult.Skip()])
async def test_of_a_skipped_job_the_truth_is_told_and_no_worker_counts_as_recovered(
    tables: Tables, sweeper: Client, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    """The class stands for its only value: in Rust these answers are written without brackets."""
    hooks, told = answering(answer), []
    hooks.on(WorkerRecovered, told.append)
    job_id = tables.held_job(tables.worker())
    result = await sweep_as_worker(sweeper, hooks=hooks)
    assert (result.recovered_count, result.skipped_job_ids, told) == (0, (job_id,), [])
    assert tables.job(job_id)["locked_by"] == "dead"
    assert len(logged(caplog, "jobs_skipped", count=1)) == 1
    assert not logged(caplog, "jobs_recovered")


async def test_to_reschedule_a_job_without_an_attempt_left_is_refused_and_logged(
    tables: Tables, sweeper: Client, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = tables.held_job(tables.worker())
    await sweep_as_worker(sweeper, hooks=answering(JobRecoveryResult.Reschedule(TOMORROW, attempts=30)))
    assert (tables.job(job_id)["attempts"], tables.job(job_id)["last_error"]) == (0, RECOVERED)
    [record] = logged(caplog, "hook_answer_refused")
    assert f"Reschedule(attempts=30) for job {job_id}, which has max_attempts=25" in record.getMessage()


async def test_a_worker_with_a_skipped_job_stays_known_so_that_the_hook_is_asked_again(
    tables: Tables, sweeper: Client
) -> None:
    """Without its row it would be an orphan, which is judged by the age of its locks instead."""
    skipped, other = tables.held_job(tables.worker()), tables.held_job()
    hooks = HookRegistry()
    hooks.on(JobRecovery, lambda event: JobRecoveryResult.Skip() if event.job.id == skipped else None)
    result = await sweep_as_worker(sweeper, hooks=hooks)
    assert [each.job_id for each in result.recoveries] == [other]
    assert tables.workers() == ["dead"]
    assert (await sweep_as_worker(sweeper)).recovered_count == 1
    assert (tables.workers(), tables.lost_workers()[0]["recovered_jobs"]) == ([], 2)


async def test_a_hook_that_fails_decides_nothing(tables: Tables, sweeper: Client) -> None:
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    def fail(_event: JobRecovery) -> None:
        raise RuntimeError("broken")

    job_id = tables.held_job(tables.worker())
    assert (await sweep_as_worker(sweeper, hooks=hooks)).recovered_count == 1
    assert tables.job(job_id)["attempts"] == 0


async def test_a_hook_that_takes_too_long_counts_as_failed(
    tables: Tables, sweeper: Client, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    async def hang(_event: JobRecovery) -> JobRecoveryResult:
        await asyncio.Event().wait()
        return JobRecoveryResult.Skip()

    tables.held_job(tables.worker())
    assert (await sweep_as_worker(sweeper, hooks=hooks, hook_seconds=0.05)).recovered_count == 1
    assert len(logged(caplog, "hook_timed_out", hook="JobRecovery")) == 1


async def test_hooks_that_are_slow_for_each_job_do_not_keep_a_sweep_from_ending(
    tables: Tables, sweeper: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Decided jobs are recovered. The others stay with their worker, and the next sweep asks about them."""
    jobs = [tables.held_job(tables.worker()) for _ in range(3)]
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    async def hang(_event: JobRecovery) -> None:
        await asyncio.Event().wait()

    slow = {"hooks": hooks, "hook_seconds": 0.02, "patience_seconds": 0.0}
    for left in (jobs[1:], jobs[2:], []):
        assert (await sweep_as_worker(sweeper, **slow)).recovered_count == 1
        assert [job["id"] for job in tables.jobs() if job["locked_by"] == "dead"] == left
    assert len(logged(caplog, "recovery_hooks_slow", count=2)) == 1
    assert tables.workers() == []


async def test_while_a_hook_thinks_others_may_sweep(tables: Tables, sweeper: Client) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    async def think(_event: JobRecovery) -> JobRecoveryResult:
        asked.set()
        await may_answer.wait()
        return JobRecoveryResult.FailWithBackoff()

    job_id = tables.held_job(tables.worker())
    thinking = asyncio.create_task(sweep_as_worker(sweeper, hooks=hooks))
    await asyncio.wait_for(asked.wait(), 30)
    other = await sweep_as_worker(sweeper)
    may_answer.set()
    assert (other.recovered_count, other.is_already_running) == (1, False)
    assert (await thinking).recovered_count == 0
    assert (tables.job(job_id)["attempts"], len(tables.crashes())) == (0, 1)


async def test_hooks_are_asked_batch_by_batch(tables: Tables, sweeper: Client) -> None:
    jobs = [tables.held_job(tables.worker()) for _ in range(5)]
    asked: list[int] = []
    hooks = HookRegistry()
    hooks.on(JobRecovery, lambda event: asked.append(event.job.id))
    assert (await sweep_as_worker(sweeper, hooks=hooks, batch=2)).recovered_count == 5
    assert asked == jobs


async def test_after_each_handled_job_the_interruption_is_told_and_then_the_sweep(
    tables: Tables, sweeper: Client, caplog: pytest.LogCaptureFixture
) -> None:
    skipped, handled = tables.held_job(tables.worker()), tables.held_job()
    hooks, told = HookRegistry(), list[object]()
    hooks.on(JobRecovery, lambda event: JobRecoveryResult.Skip() if event.job.id == skipped else None)
    hooks.on(JobInterrupted, told.append)
    hooks.on(WorkerRecovered, told.append)
    await sweep_as_worker(sweeper, hooks=hooks)
    interrupted, swept = told
    assert isinstance(interrupted, JobInterrupted)
    assert (interrupted.job.id, interrupted.worker_id) == (handled, "dead")
    assert interrupted.reason is FailureReason.WORKER_CRASHED
    assert swept == WorkerRecovered(worker_id="sweeper", dead_worker_ids=("dead",), jobs_recovered=1)
    [said] = logged(caplog, "jobs_recovered", count=1)
    assert said.getMessage().startswith("recovered 1 job of dead workers dead (")


@pytest.mark.parametrize(
    "answer",
    [None, JobRecoveryResult.Default(), JobRecoveryResult.Reschedule(TOMORROW), JobRecoveryResult.FailWithBackoff()],
    ids=["no answer", "Default", "Reschedule", "FailWithBackoff"],
)
async def test_every_answer_but_skip_is_followed_by_the_interruption_as_a_crash(
    tables: Tables, sweeper: Client, answer: JobRecoveryResult | None
) -> None:
    job_id = tables.held_job(tables.worker())
    hooks, told = answering(answer), list[JobInterrupted]()
    hooks.on(JobInterrupted, told.append)
    await sweep_as_worker(sweeper, hooks=hooks)
    assert [(event.job.id, event.reason) for event in told] == [(job_id, FailureReason.WORKER_CRASHED)]


async def test_events_are_told_when_the_database_holds_what_they_tell(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    hooks, owners = HookRegistry(), list[str | None]()
    hooks.on(JobInterrupted, lambda event: owners.append(tables.job(event.job.id)["locked_by"]))
    await sweep_as_worker(sweeper, hooks=hooks)
    assert (owners, tables.job(job_id)["attempts"]) == ([None], 0)


async def test_a_job_that_fails_for_good_is_told_as_such_too(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail", "payment")
    failed = tables.held_job(tables.worker(), identifier="payment")
    tables.held_job()
    hooks, told = HookRegistry(), list[JobPermanentlyFail]()
    hooks.on(JobPermanentlyFail, told.append)
    await sweep_as_worker(sweeper, hooks=hooks)
    (event,) = told
    assert (event.job.id, event.worker_id, event.error.startswith("WorkerCrashed: ")) == (failed, "dead", True)


async def test_a_sweep_that_found_nobody_tells_nothing(tables: Tables, sweeper: Client) -> None:
    tables.worker("alive", "1 second")
    hooks, told = HookRegistry(), list[object]()
    hooks.on(WorkerRecovered, told.append)
    await sweep_as_worker(sweeper, hooks=hooks)
    assert told == []


async def test_a_dry_run_asks_and_tells_nobody(tables: Tables, long_up: str) -> None:
    tables.held_job(tables.worker())
    hooks, told = HookRegistry(), list[object]()
    for event in (JobRecovery, JobInterrupted, WorkerRecovered):
        hooks.on(event, told.append)
    async with Client(long_up, hooks=hooks) as client:
        await client.sweep_stale_workers(SweepStaleWorkersOptions(dry_run=True))
    assert told == []


async def test_nobody_is_asked_about_a_job_that_is_only_unlocked(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker(), job_key="k", age="1 minute")
    tables.add_job(job_key="k")
    result = await sweep_as_worker(sweeper, hooks=answering(JobRecoveryResult.Skip()))
    assert [each.decision for each in result.recoveries] == ["superseded"]


def test_plain_hooks_work_with_the_blocking_client(tables: Tables, long_up: str) -> None:
    tables.held_job(tables.worker())
    hooks, told = answering(JobRecoveryResult.FailWithBackoff()), list[object]()
    hooks.on(JobInterrupted, told.append)
    hooks.on(WorkerRecovered, told.append)
    with SyncClient(long_up, hooks=hooks) as client:
        assert [each.decision for each in client.sweep_stale_workers().recoveries] == ["backoff"]
    assert [type(event) for event in told] == [JobInterrupted, WorkerRecovered]


def test_a_blocking_client_refuses_to_ask_an_async_hook_and_changes_nothing(tables: Tables, long_up: str) -> None:
    job_id = tables.held_job(tables.worker())
    hooks = HookRegistry()

    @hooks.on(JobRecovery)
    async def decide(_event: JobRecovery) -> None: ...

    with SyncClient(long_up, hooks=hooks) as client, pytest.raises(ConfigurationError, match="cannot await it"):
        client.sweep_stale_workers()
    assert tables.job(job_id)["locked_by"] == "dead"


def test_a_blocking_client_says_which_async_hook_it_could_not_tell(
    tables: Tables, long_up: str, caplog: pytest.LogCaptureFixture
) -> None:
    tables.held_job(tables.worker())
    hooks = HookRegistry()

    @hooks.on(WorkerRecovered)
    async def report(_event: WorkerRecovered) -> None: ...

    with caplog.at_level(logging.ERROR), SyncClient(long_up, hooks=hooks) as client:
        assert client.sweep_stale_workers().recovered_count == 1
    assert any("report" in record.hook for record in logged(caplog, "hook_failed"))
