"""Jobs that a worker had claimed ahead: those that never started go straight back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman.database.sessions import AsyncSession
from ferryman.queries.attempt import mark_started
from ferryman.queries.claim import record_waiting
from ferryman.recovery.config import WorkerRecoveryConfig
from ferryman.recovery.membership import worker_metadata
from tests.support.sweeps import seen, sweep_as_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman import Client
    from ferryman.database.steps import Steps
    from tests.support.tables import Tables

RECOVERED = "Job recovered after worker interruption"


def token(tables: Tables, job_id: int) -> int:
    (row,) = tables.query(
        "select cast(extract(epoch from locked_at) * 1000000 as bigint) as token from graphile_worker._private_jobs"
        " where id = %s",
        job_id,
    )
    return int(row["token"])


async def met(client: Client, worker_id: str, *claims: tuple[int, int]) -> dict[int, str]:
    """Mark starts as a worker does; what came of it, for those that are still ours."""
    return await AsyncSession(lambda: client.pool, client.schema).run(_mark(worker_id, claims))


async def marked(client: Client, worker_id: str, *claims: tuple[int, int]) -> list[int]:
    """The same; returns which of them may start."""
    return sorted(job_id for job_id, word in (await met(client, worker_id, *claims)).items() if word == "marked")


def _mark(worker_id: str, claims: Sequence[tuple[int, int]]) -> Steps[dict[int, str]]:
    rows = yield mark_started(worker_id, claims)
    return {job_id: "busy" if is_busy else "marked" for job_id, _, is_busy in rows}


@pytest.mark.parametrize("policy", ["retry", "fail"])
async def test_a_job_that_was_claimed_ahead_and_never_started_goes_back_as_if_never_claimed(
    tables: Tables, sweeper: Client, policy: str
) -> None:
    tables.policy(policy)
    job_id = tables.held_job(tables.worker(prefetches=True), queue_name="q")
    before = tables.set(job_id, last_error="an earlier one")
    result = await sweep_as_worker(sweeper)
    job = tables.job(job_id)
    assert [(each.decision, each.started) for each in result.recoveries] == [("given back", False)]
    assert (job["attempts"], job["run_at"], job["last_error"]) == (0, before["run_at"], "an earlier one")
    assert (job["locked_by"], tables.queue("q")["locked_by"]) == (None, None)


async def test_a_job_that_had_started_follows_the_policy(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    job_id = tables.held_job(tables.worker(prefetches=True))
    tables.mark(job_id)
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("fail", True)]
    assert tables.query("select * from graphile_worker._ferryman_started_jobs") == []


async def test_a_mark_of_an_earlier_claim_says_nothing(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    job_id = tables.held_job("earlier", age="2 hours")
    tables.mark(job_id)
    tables.query("update graphile_worker._private_jobs set attempts = 0 where id = %s", job_id)
    tables.claim(job_id, tables.worker(prefetches=True))
    result = await sweep_as_worker(sweeper)
    assert [each.decision for each in result.recoveries] == ["given back"]


async def test_whether_an_unmarked_job_that_is_simply_requeued_had_started_cannot_be_known(
    tables: Tables, sweeper: Client
) -> None:
    job_id = tables.held_job(tables.worker(prefetches=True))
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("requeue", None)]
    assert tables.job(job_id)["last_error"] == RECOVERED


async def test_after_a_first_crash_it_can(tables: Tables, sweeper: Client) -> None:
    """A worker marks the start of a job that has crashed before; without a mark it was only a bystander."""
    job_id = tables.held_job(tables.worker(prefetches=True, suspects=True))
    tables.suspect(job_id, "crashed")
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("given back", False)]


async def test_what_is_on_the_last_list_of_a_worker_and_has_no_mark_never_started(
    tables: Tables, sweeper: Client
) -> None:
    """After `claimed_threshold`, and without an error. A job that was claimed since that list may have started."""
    tables.worker("slow", "3 minutes", prefetches=True, suspects=True)
    listed, started, other = (tables.held_job("slow") for _ in range(3))
    await wait_for_list(sweeper, "slow", *((job_id, token(tables, job_id)) for job_id in (listed, started)))
    await wait_for_list(sweeper, "another", (other, token(tables, other)))
    tables.mark(started)
    before = tables.job(listed)
    result = await sweeper.sweep_stale_workers()
    assert [(each.job_id, each.decision, each.started) for each in result.recoveries] == [(listed, "given back", False)]
    job = tables.job(listed)
    assert (job["attempts"], job["run_at"], job["last_error"], job["flags"]) == (0, before["run_at"], None, None)
    assert {tables.job(job_id)["locked_by"] for job_id in (started, other)} == {"slow"}


async def test_a_list_names_claims_and_not_jobs(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(prefetches=True, suspects=True), age="2 hours")
    await wait_for_list(sweeper, "dead", (job_id, token(tables, job_id)))
    tables.claim(job_id, "dead", "1 hour")
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("requeue", None)]


async def wait_for_list(client: Client, worker_id: str, *claims: tuple[int, int]) -> None:
    """Say what waits, as a worker does."""

    def steps() -> Steps[None]:
        yield record_waiting(worker_id, claims)

    await AsyncSession(lambda: client.pool, client.schema).run(steps())


@pytest.mark.parametrize(("switch", "left"), [("recover_claimed", False), ("recover_running", True)])
async def test_each_kind_of_job_can_be_left_locked_for_a_person(
    tables: Tables, sweeper: Client, switch: str, left: bool
) -> None:
    tables.policy("fail")
    tables.worker(prefetches=True)
    jobs = {started: tables.held_job() for started in (True, False)}
    tables.mark(jobs[True])
    result = await sweep_as_worker(sweeper, config={switch: False})
    assert [each.started for each in result.recoveries] == [not left]
    assert (tables.job(jobs[left])["locked_by"], tables.job(jobs[not left])["locked_by"]) == ("dead", None)
    assert tables.workers() == ["dead"]


async def test_with_both_kinds_left_locked_nothing_is_recovered_until_somebody_sweeps_by_hand(
    tables: Tables, sweeper: Client
) -> None:
    tables.policy("fail")
    tables.worker(prefetches=True)
    started, waiting = tables.held_job(), tables.held_job()
    tables.mark(started)
    for _ in range(2):
        result = await sweep_as_worker(sweeper, config={"recover_claimed": False, "recover_running": False})
        assert result.recovered_count == 0
        assert {tables.job(job_id)["locked_by"] for job_id in (started, waiting)} == {"dead"}
    result = await sweeper.sweep_stale_workers()
    assert {each.job_id: each.decision for each in result.recoveries} == {started: "fail", waiting: "given back"}


async def test_the_default_policy_of_the_dead_worker_says_what_it_would_have_marked(
    tables: Tables, sweeper: Client
) -> None:
    marks, does_not = tables.worker("marks", prefetches=True, on_crash="fail"), tables.worker("no", prefetches=True)
    first, second = tables.held_job(marks), tables.held_job(does_not)
    result = await sweep_as_worker(sweeper, config={"on_crash": "fail"})
    assert {each.job_id: each.decision for each in result.recoveries} == {first: "given back", second: "fail"}


async def test_a_worker_that_claims_only_what_it_starts_has_started_all(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    tables.held_job(tables.worker("direct", prefetches=False))
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("fail", True)]


async def test_of_a_worker_that_says_nothing_of_claiming_ahead_nobody_knows_what_it_started(
    tables: Tables, sweeper: Client
) -> None:
    tables.held_job(tables.worker("rust", pid=1))
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("requeue", None)]


async def test_between_the_two_thresholds_only_jobs_that_never_started_go_back(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    tables.worker("slow", "3 minutes", prefetches=True)
    waiting, running = tables.held_job("slow", queue_name="q"), tables.held_job("slow", queue_name="p")
    tables.mark(running)
    unknown = tables.held_job("slow", identifier="simply requeued")
    result = await sweeper.sweep_stale_workers()
    assert [(each.job_id, each.decision) for each in result.recoveries] == [(waiting, "given back")]
    assert result.worker_ids == ()
    assert {tables.job(job_id)["locked_by"] for job_id in (running, unknown)} == {"slow"}
    assert (tables.queue("q")["locked_by"], tables.queue("p")["locked_by"]) == (None, "slow")
    assert tables.workers() == ["slow"]


async def test_before_the_first_threshold_nothing_goes_back(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    tables.held_job(tables.worker("slow", "119 seconds", prefetches=True))
    assert (await sweeper.sweep_stale_workers()).recovered_count == 0


async def test_with_a_lost_session_jobs_that_never_started_go_back_at_once(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    tables.held_job(tables.worker("dead", "10 seconds", prefetches=True))
    result = await sweep_as_worker(sweeper, observed=[seen(tables, "dead")])
    assert [each.decision for each in result.recoveries] == ["given back"]


async def test_given_back_jobs_do_not_count_as_crashes(tables: Tables, sweeper: Client) -> None:
    tables.policy("retry")
    job_id = tables.add_job()["id"]
    for number in range(5):
        tables.claim(job_id, tables.worker(f"worker {number}", prefetches=True))
        result = await sweep_as_worker(sweeper)
        assert [each.decision for each in result.recoveries] == ["given back"]
    assert tables.job(job_id)["attempts"] == 0


async def test_a_start_is_marked_only_while_the_claim_holds(tables: Tables, sweeper: Client) -> None:
    mine, lost, again = (tables.held_job("me") for _ in range(3))
    claims = [(job_id, token(tables, job_id)) for job_id in (mine, lost, again)]
    tables.claim(lost, "somebody else")
    tables.claim(again, "me", "1 minute")
    assert await marked(sweeper, "me", *claims) == [mine]
    marks = tables.query("select job_id, locked_by from graphile_worker._ferryman_started_jobs")
    assert marks == [{"job_id": mine, "locked_by": "me"}]


async def test_marking_again_replaces_the_mark_of_an_earlier_claim(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job("me")
    await marked(sweeper, "me", (job_id, token(tables, job_id)))
    tables.claim(job_id, "me", "1 minute")
    assert await marked(sweeper, "me", (job_id, token(tables, job_id))) == [job_id]
    (mark,) = tables.query("select locked_at from graphile_worker._ferryman_started_jobs")
    assert mark["locked_at"] == tables.job(job_id)["locked_at"]


async def test_a_mark_that_comes_while_the_job_is_taken_away_is_put_off_and_then_refused(
    tables: Tables, sweeper: Client
) -> None:
    job_id, other = tables.held_job("me"), tables.held_job("me")
    claims = [(each, token(tables, each)) for each in (job_id, other)]
    with tables.connection.transaction():
        tables.query(
            "update graphile_worker._private_jobs set locked_by = null, locked_at = null where id = %s", job_id
        )
        assert await met(sweeper, "me", *claims) == {job_id: "busy", other: "marked"}
    assert await met(sweeper, "me", *claims) == {other: "marked"}


async def test_a_job_whose_start_is_being_marked_is_left_for_the_next_sweep(tables: Tables, sweeper: Client) -> None:
    tables.policy("fail")
    job_id = tables.held_job(tables.worker(prefetches=True))
    with tables.connection.transaction():
        tables.query("select from graphile_worker._private_jobs where id = %s for share", job_id)
        assert (await sweep_as_worker(sweeper)).recovered_count == 0
        tables.mark(job_id)
    result = await sweep_as_worker(sweeper)
    assert [each.decision for each in result.recoveries] == ["fail"]


async def test_sweepers_understand_what_workers_tell_of_themselves(tables: Tables, sweeper: Client) -> None:
    config = WorkerRecoveryConfig(on_crash="fail", heartbeat_interval=timedelta(seconds=7))
    metadata = worker_metadata(config.settings, version="1", tasks=["b", "a"], concurrency=3, prefetches=True)
    tables.held_job(tables.worker("dead", **metadata))
    (listed,) = await sweeper.list_active_workers()
    assert (listed.metadata["tasks"], listed.metadata["beat_interval"]) == (["a", "b"], 7)
    result = await sweep_as_worker(sweeper)
    assert [(each.decision, each.started) for each in result.recoveries] == [("given back", False)]
