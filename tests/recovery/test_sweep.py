"""The sweep: who is found dead, what becomes of the jobs, and what is left alone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import Client
from ferryman.errors import InvalidJobError
from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG, WorkerRecoveryConfig
from ferryman.recovery.results import SweepStaleWorkersOptions

if TYPE_CHECKING:
    from ferryman import SyncClient
    from tests.support.stage import Stage
from tests.support.waiting import DEADLINE_SECONDS

RECOVERED = "Job recovered after worker interruption"


async def test_a_worker_is_dead_when_its_beat_is_older_than_the_threshold(stage: Stage, sweeper: Client) -> None:
    stage.worker("fresh", "4 minutes")
    stage.worker("dead", "6 minutes")
    fresh, stale = stage.held_job("fresh"), stage.held_job("dead")
    result = await sweeper.sweep_stale_workers()
    assert (result.worker_ids, result.recovered_count) == (("dead",), 1)
    assert [recovery.job_id for recovery in result.recoveries] == [stale]
    assert stage.job(fresh)["locked_by"] == "fresh"
    assert stage.workers() == ["fresh"]


async def test_a_recovered_job_is_unlocked_with_its_attempt_its_delay_and_the_error(
    stage: Stage, sweeper: Client
) -> None:
    job_id = stage.held_job(stage.worker())
    await sweeper.sweep_stale_workers()
    job = stage.job(job_id)
    assert (job["locked_by"], job["locked_at"], job["attempts"], job["last_error"]) == (None, None, 0, RECOVERED)
    assert job["run_at"] - job["updated_at"] == timedelta(seconds=30)


async def test_the_count_of_attempts_never_falls_below_zero(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job(stage.worker())
    stage.set(job_id, attempts=0)
    await sweeper.sweep_stale_workers()
    assert stage.job(job_id)["attempts"] == 0


async def test_a_job_on_its_last_attempt_may_run_again(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job(stage.worker(), max_attempts=1)
    await sweeper.sweep_stale_workers()
    assert stage.job(job_id)["is_available"]


async def test_the_delay_never_moves_a_job_forward_in_time(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job(stage.worker())
    before = stage.query(
        "update graphile_worker._private_jobs set run_at = now() + interval '1 day' where id = %s returning run_at",
        job_id,
    )
    await sweeper.sweep_stale_workers()
    assert stage.job(job_id)["run_at"] == before[0]["run_at"]


async def test_threshold_and_delay_can_be_changed_for_one_sweep(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job(stage.worker("dead", "61 seconds"))
    stage.worker("fresh", "59 seconds")
    options = SweepStaleWorkersOptions(
        sweep_threshold=timedelta(seconds=60), recovery_delay=timedelta(milliseconds=1500)
    )
    assert (await sweeper.sweep_stale_workers(options)).worker_ids == ("dead",)
    job = stage.job(job_id)
    assert job["run_at"] - job["updated_at"] == timedelta(seconds=1.5)


async def test_a_config_can_be_given_for_a_sweep_and_options_go_before_it(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job(stage.worker("dead", "61 seconds"))
    config = WorkerRecoveryConfig().sweep_threshold(timedelta(seconds=60)).recovery_delay(timedelta(hours=1))
    options = SweepStaleWorkersOptions(recovery_delay=timedelta())
    assert (await sweeper.sweep_stale_workers_with_config(config, options)).recovered_count == 1
    assert stage.job(job_id)["is_available"]
    assert stage.job(job_id)["run_at"] <= stage.job(job_id)["updated_at"]


async def test_queue_locks_of_recovered_jobs_are_released(stage: Stage, sweeper: Client) -> None:
    stage.held_job(stage.worker(), queue_name="q")
    stage.held_job(stage.worker("alive", "1 second"), queue_name="p")
    await sweeper.sweep_stale_workers()
    assert stage.queue("q")["locked_by"] is None
    assert stage.queue("p")["locked_by"] == "alive"


async def test_a_queue_that_a_dead_worker_holds_without_a_job_is_released(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job(stage.worker(), queue_name="q")
    stage.query("delete from graphile_worker._private_jobs where id = %s", job_id)
    result = await sweeper.sweep_stale_workers()
    assert (result.worker_ids, result.recovered_count) == (("dead",), 0)
    assert stage.queue("q")["locked_by"] is None


async def test_a_dry_run_names_the_dead_and_changes_nothing(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job(stage.worker(), queue_name="q")
    before = stage.job(job_id)
    result = await sweeper.sweep_stale_workers(SweepStaleWorkersOptions(dry_run=True))
    assert (result.worker_ids, result.recovered_count) == (("dead",), 0)
    assert [(each.job_id, each.decision) for each in result.recoveries] == [(job_id, "requeue")]
    assert stage.job(job_id) == before
    assert (stage.queue("q")["locked_by"], stage.workers(), stage.crashes(), stage.lost_workers()) == (
        "dead", ["dead"], [], [],
    )  # fmt: skip


async def test_while_another_sweep_runs_this_one_ends_at_once_and_says_so(stage: Stage, sweeper: Client) -> None:
    job_id = stage.held_job(stage.worker())
    with stage.connection.transaction():
        stage.query("select pg_advisory_xact_lock(%s, hashtext('graphile_worker'))", 0x46525357)
        result = await sweeper.sweep_stale_workers()
        assert (result.is_already_running, result.worker_ids, result.recovered_count) == (True, (), 0)
    assert stage.job(job_id)["locked_by"] == "dead"
    assert (await sweeper.sweep_stale_workers()).recovered_count == 1


async def test_sweeps_of_other_schemas_do_not_matter(stage: Stage, sweeper: Client) -> None:
    stage.held_job(stage.worker())
    with stage.connection.transaction():
        stage.query("select pg_advisory_xact_lock(%s, hashtext('another_schema'))", 0x46525357)
        assert (await sweeper.sweep_stale_workers()).recovered_count == 1


async def test_a_sweep_with_nothing_to_find_does_nothing(stage: Stage, sweeper: Client) -> None:
    stage.held_job(stage.worker("alive", "1 second"))
    result = await sweeper.sweep_stale_workers()
    assert (result.worker_ids, result.recovered_count, result.recoveries) == ((), 0, ())
    assert not result.is_already_running


def test_the_blocking_client_sweeps_too(stage: Stage, sync_sweeper: SyncClient) -> None:
    job_id = stage.held_job(stage.worker())
    assert sync_sweeper.sweep_stale_workers().recovered_count == 1
    assert stage.job(job_id)["attempts"] == 0


async def test_workers_hear_of_recovered_jobs(stage: Stage, sweeper: Client, database: str) -> None:
    stage.held_job(stage.worker())
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute('listen "jobs:insert"')
        await sweeper.sweep_stale_workers()
        assert len([*listener.notifies(timeout=DEADLINE_SECONDS, stop_after=1)]) == 1


@pytest.mark.parametrize("flag_value", ["true", "1", '"yes"', "{}"])
async def test_a_worker_with_a_resilient_job_may_be_silent_three_times_as_long(
    stage: Stage, sweeper: Client, flag_value: str
) -> None:
    patient, late = stage.worker("patient", "14 minutes"), stage.worker("late", "16 minutes")
    for worker in (patient, late):
        job_id = stage.held_job(worker)
        flags = f'{{"{INFRASTRUCTURE_RESILIENT_FLAG}": {flag_value}}}'
        stage.query("update graphile_worker._private_jobs set flags = %s::jsonb where id = %s", flags, job_id)
    assert (await sweeper.sweep_stale_workers()).worker_ids == ("late",)


@pytest.mark.parametrize("flag_value", ["false", "null", "0", '""'])
async def test_a_resilient_flag_must_be_truthy(stage: Stage, sweeper: Client, flag_value: str) -> None:
    job_id = stage.held_job(stage.worker("dead", "6 minutes"))
    flags = f'{{"{INFRASTRUCTURE_RESILIENT_FLAG}": {flag_value}}}'
    stage.query("update graphile_worker._private_jobs set flags = %s::jsonb where id = %s", flags, job_id)
    assert (await sweeper.sweep_stale_workers()).worker_ids == ("dead",)


async def test_a_resilient_flag_must_be_present(stage: Stage, sweeper: Client) -> None:
    stage.held_job(stage.worker("dead", "6 minutes"), flags=["another_flag"])
    assert (await sweeper.sweep_stale_workers()).worker_ids == ("dead",)


async def test_flags_and_multiplier_can_be_chosen(stage: Stage, sweeper: Client) -> None:
    stage.held_job(stage.worker("patient", "9 minutes"), flags=["custom_resilient"])
    stage.held_job(stage.worker("ordinary", "9 minutes"), flags=[INFRASTRUCTURE_RESILIENT_FLAG])
    config = WorkerRecoveryConfig(resilient_job_flags=["custom_resilient"], resilient_sweep_threshold_multiplier=2)
    assert (await sweeper.sweep_stale_workers_with_config(config)).worker_ids == ("ordinary",)


async def test_the_flag_of_a_job_comes_from_its_spec(stage: Stage, sweeper: Client) -> None:
    stage.held_job(stage.worker("patient", "14 minutes"), flags=[INFRASTRUCTURE_RESILIENT_FLAG])
    assert (await sweeper.sweep_stale_workers()).worker_ids == ()


async def test_active_workers_are_listed_with_their_staleness(stage: Stage, sweeper: Client) -> None:
    stage.worker("old", "2 minutes", pid=7)
    stage.worker("new", "1 second")
    stage.query("update graphile_worker._private_workers set started_at = now() - interval '1 day' where id = 'old'")
    old, new = await sweeper.list_active_workers(timedelta(seconds=60))
    assert (old.worker_id, old.is_stale, old.metadata) == ("old", True, {"pid": 7})
    assert (new.worker_id, new.is_stale) == ("new", False)
    assert new.last_heartbeat_at - old.last_heartbeat_at > timedelta(minutes=1)
    assert new.started_at - old.started_at > timedelta(hours=23)


async def test_time_in_which_the_server_was_down_does_not_count(stage: Stage, just_up: str) -> None:
    """The server was started just now: nobody could have beaten before."""
    stage.held_job(stage.worker("dead", "1 hour"))
    async with Client(just_up) as client:
        assert (await client.sweep_stale_workers()).worker_ids == ()


async def test_a_worker_is_never_silent_before_two_of_its_own_beats_were_due(stage: Stage, sweeper: Client) -> None:
    stage.worker("slow beats", "90 seconds", beat_interval=60)
    stage.worker("quick beats", "90 seconds", beat_interval=5)
    options = SweepStaleWorkersOptions(sweep_threshold=timedelta(seconds=10))
    assert (await sweeper.sweep_stale_workers(options)).worker_ids == ("quick beats",)


async def test_a_worker_that_says_nonsense_about_itself_is_swept_all_the_same(stage: Stage, sweeper: Client) -> None:
    stage.held_job(stage.worker("dead", beat_interval="often", prefetches="perhaps", on_crash=3))
    assert (await sweeper.sweep_stale_workers()).recovered_count == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"sweep_threshold": timedelta()}, "sweep_threshold must be more than nothing; got 0 s"),
        ({"sweep_threshold": 60}, "sweep_threshold must be a timedelta, not int"),
        ({"recovery_delay": timedelta(seconds=-1)}, "recovery_delay must be nothing or more; got -1 s"),
        ({"worker_ids": "worker-1"}, "worker_ids must be a list of ids; got the single string 'worker-1'"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidJobError, match=told):
        SweepStaleWorkersOptions(**wrong)
