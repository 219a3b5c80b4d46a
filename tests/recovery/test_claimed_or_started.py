"""Jobs that a worker had claimed ahead: those that never started go straight back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman.database.sessions import AsyncSession
from ferryman.queries.recovering import mark_started
from ferryman.recovery.config import WorkerRecoveryConfig
from ferryman.recovery.metadata import worker_metadata
from tests.support.stage import seen, sweep_as_worker
from tests.support.waiting import somebody_waits_for_a_lock, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from ferryman import Client
    from ferryman.database.steps import Steps
    from tests.support.stage import Stage

RECOVERED = "Job recovered after worker interruption"


def token(stage: Stage, job_id: int) -> int:
    (row,) = stage.query(
        "select cast(extract(epoch from locked_at) * 1000000 as bigint) as token from graphile_worker._private_jobs"
        " where id = %s",
        job_id,
    )
    return int(row["token"])


async def marked(client: Client, worker_id: str, *claims: tuple[int, int]) -> list[int]:
    """Mark starts as a worker does; says which of them may begin."""
    return await AsyncSession(lambda: client.pool, client.schema).run(_mark(worker_id, claims))


def _mark(worker_id: str, claims: Sequence[tuple[int, int]]) -> Steps[list[int]]:
    rows = yield mark_started(worker_id, claims)
    return sorted(job_id for (job_id,) in rows)


@pytest.mark.parametrize("policy", ["retry", "fail"])
async def test_a_job_that_was_claimed_ahead_and_never_started_goes_back_as_if_never_claimed(
    stage: Stage, sweeper: Client, policy: str
) -> None:
    stage.policy(policy)
    job_id = stage.held_job(stage.worker(prefetches=True), queue_name="q")
    before = stage.set(job_id, last_error="an earlier one")
    result = await sweep_as_worker(sweeper)
    job = stage.job(job_id)
    assert [(each.decision, each.started) for each in result.recoveries] == [("given back", False)]
    assert (job["attempts"], job["run_at"], job["last_error"]) == (0, before["run_at"], "an earlier one")
    assert (job["locked_by"], stage.queue("q")["locked_by"]) == (None, None)


async def test_a_job_that_had_started_follows_the_policy(stage: Stage, sweeper: Client) -> None:
    stage.policy("fail")
    job_id = stage.held_job(stage.worker(prefetches=True))
    stage.mark(job_id)
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("fail", True)]
    assert stage.query("select * from graphile_worker._ferryman_started_jobs") == []


async def test_a_mark_of_an_earlier_claim_says_nothing(stage: Stage, sweeper: Client) -> None:
    stage.policy("fail")
    job_id = stage.held_job("earlier", age="2 hours")
    stage.mark(job_id)
    stage.query("update graphile_worker._private_jobs set attempts = 0 where id = %s", job_id)
    stage.claim(job_id, stage.worker(prefetches=True))
    result = await sweep_as_worker(sweeper)
    assert [each.decision for each in result.recoveries] == ["given back"]


async def test_whether_an_unmarked_job_that_is_simply_requeued_had_started_cannot_be_known(
    stage: Stage, sweeper: Client
) -> None:
    job_id = stage.held_job(stage.worker(prefetches=True))
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("requeue", None)]
    assert stage.job(job_id)["last_error"] == RECOVERED


async def test_after_a_first_crash_it_can(stage: Stage, sweeper: Client) -> None:
    """A worker marks the start of a job that has crashed before; without a mark it was only a bystander."""
    job_id = stage.held_job(stage.worker(prefetches=True))
    stage.set(job_id, last_error=RECOVERED)
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("given back", False)]


async def test_the_default_policy_of_the_dead_worker_says_what_it_would_have_marked(
    stage: Stage, sweeper: Client
) -> None:
    marks, does_not = stage.worker("marks", prefetches=True, on_crash="fail"), stage.worker("no", prefetches=True)
    first, second = stage.held_job(marks), stage.held_job(does_not)
    result = await sweep_as_worker(sweeper, config={"on_crash": "fail"})
    assert {each.job_id: each.decision for each in result.recoveries} == {first: "given back", second: "fail"}


async def test_a_worker_that_claims_only_what_it_starts_has_started_all(stage: Stage, sweeper: Client) -> None:
    stage.policy("fail")
    stage.held_job(stage.worker("direct", prefetches=False))
    stage.held_job(stage.worker("rust", pid=1))
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("fail", True)] * 2


async def test_between_the_two_thresholds_only_jobs_that_never_started_go_back(stage: Stage, sweeper: Client) -> None:
    stage.policy("fail")
    stage.worker("slow", "3 minutes", prefetches=True)
    waiting, running = stage.held_job("slow", queue_name="q"), stage.held_job("slow", queue_name="p")
    stage.mark(running)
    unknown = stage.held_job("slow", identifier="simply requeued")
    result = await sweeper.sweep_stale_workers()
    assert [(each.job_id, each.decision) for each in result.recoveries] == [(waiting, "given back")]
    assert result.worker_ids == ()
    assert {stage.job(job_id)["locked_by"] for job_id in (running, unknown)} == {"slow"}
    assert (stage.queue("q")["locked_by"], stage.queue("p")["locked_by"]) == (None, "slow")
    assert stage.workers() == ["slow"]


async def test_before_the_first_threshold_nothing_goes_back(stage: Stage, sweeper: Client) -> None:
    stage.policy("fail")
    stage.held_job(stage.worker("slow", "119 seconds", prefetches=True))
    assert (await sweeper.sweep_stale_workers()).recovered_count == 0


async def test_with_a_lost_session_jobs_that_never_started_go_back_at_once(stage: Stage, sweeper: Client) -> None:
    stage.policy("fail")
    stage.held_job(stage.worker("dead", "10 seconds", prefetches=True))
    result = await sweep_as_worker(sweeper, observed=[seen(stage, "dead")])
    assert [each.decision for each in result.recoveries] == ["given back"]


async def test_given_back_jobs_do_not_count_as_crashes(stage: Stage, sweeper: Client) -> None:
    stage.policy("retry")
    job_id = stage.add_job()["id"]
    for number in range(5):
        stage.claim(job_id, stage.worker(f"worker {number}", prefetches=True))
        result = await sweep_as_worker(sweeper)
        assert [each.decision for each in result.recoveries] == ["given back"]
    assert stage.job(job_id)["attempts"] == 0


async def test_a_start_is_marked_only_while_the_claim_holds(stage: Stage, sweeper: Client) -> None:
    mine, lost, again = (stage.held_job("me") for _ in range(3))
    claims = [(job_id, token(stage, job_id)) for job_id in (mine, lost, again)]
    stage.claim(lost, "somebody else")
    stage.claim(again, "me", "1 minute")
    assert await marked(sweeper, "me", *claims) == [mine]
    marks = stage.query("select job_id, locked_by from graphile_worker._ferryman_started_jobs")
    assert marks == [{"job_id": mine, "locked_by": "me"}]


async def test_marking_again_replaces_the_mark_of_an_earlier_claim(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job("me")
    await marked(sweeper, "me", (job_id, token(stage, job_id)))
    stage.claim(job_id, "me", "1 minute")
    assert await marked(sweeper, "me", (job_id, token(stage, job_id))) == [job_id]
    (mark,) = stage.query("select locked_at from graphile_worker._ferryman_started_jobs")
    assert mark["locked_at"] == stage.job(job_id)["locked_at"]


async def test_a_mark_that_comes_while_the_job_is_taken_away_is_refused(
    stage: Stage, sweeper: Client, connection: psycopg.Connection
) -> None:
    job_id = stage.held_job("me")
    claim = (job_id, token(stage, job_id))
    with stage.connection.transaction():
        stage.query("update graphile_worker._private_jobs set locked_by = null, locked_at = null where id = %s", job_id)
        marking = asyncio.create_task(marked(sweeper, "me", claim))
        await until(lambda: somebody_waits_for_a_lock(connection), "the mark waits for the row")
    assert await marking == []


async def test_a_job_whose_start_is_being_marked_is_left_for_the_next_sweep(stage: Stage, sweeper: Client) -> None:
    stage.policy("fail")
    job_id = stage.held_job(stage.worker(prefetches=True))
    with stage.connection.transaction():
        stage.query("select from graphile_worker._private_jobs where id = %s for share", job_id)
        assert (await sweep_as_worker(sweeper)).recovered_count == 0
        stage.mark(job_id)
    result = await sweep_as_worker(sweeper)
    assert [each.decision for each in result.recoveries] == ["fail"]


async def test_sweepers_understand_what_workers_tell_of_themselves(stage: Stage, sweeper: Client) -> None:
    config = WorkerRecoveryConfig(on_crash="fail", heartbeat_interval=timedelta(seconds=7))
    metadata = worker_metadata(config.settings, version="1", tasks=["b", "a"], concurrency=3, prefetches=True)
    stage.held_job(stage.worker("dead", **metadata))
    (listed,) = await sweeper.list_active_workers()
    assert (listed.metadata["tasks"], listed.metadata["beat_interval"]) == (["a", "b"], 7)
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("given back", False)]
