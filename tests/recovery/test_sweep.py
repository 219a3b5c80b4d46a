"""The sweep: which workers are dead, what happens to their jobs, and what is left alone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman import Client
from ferryman.errors import InvalidJobError
from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG, WorkerRecoveryConfig
from ferryman.recovery.sweep_results import SweepStaleWorkersOptions

if TYPE_CHECKING:
    from ferryman import SyncClient
    from tests.support.tables import Tables
from tests.support.sweeps import watch_nobody
from tests.support.waiting import DEADLINE_SECONDS

pytestmark = pytest.mark.claims

RECOVERED = "Job recovered after worker interruption"


async def test_a_worker_is_dead_when_its_beat_is_older_than_the_threshold(tables: Tables, sweeper: Client) -> None:
    tables.worker("fresh", "4 minutes")
    tables.worker("dead", "6 minutes")
    fresh, stale = tables.held_job("fresh"), tables.held_job("dead")
    result = await sweeper.sweep_stale_workers()
    assert (result.worker_ids, result.recovered_count) == (("dead",), 1)
    assert [recovery.job_id for recovery in result.recoveries] == [stale]
    assert tables.job(fresh)["locked_by"] == "fresh"
    assert tables.workers() == ["fresh"]


async def test_a_recovered_job_is_unlocked_with_its_attempt_its_delay_and_the_error(
    tables: Tables, sweeper: Client
) -> None:
    job_id = tables.held_job(tables.worker())
    await sweeper.sweep_stale_workers()
    job = tables.job(job_id)
    assert (job["locked_by"], job["locked_at"], job["attempts"], job["last_error"]) == (None, None, 0, RECOVERED)
    assert job["run_at"] - job["updated_at"] == timedelta(seconds=30)


async def test_the_count_of_attempts_never_falls_below_zero(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    tables.set(job_id, attempts=0)
    await sweeper.sweep_stale_workers()
    assert tables.job(job_id)["attempts"] == 0


async def test_a_job_on_its_last_attempt_may_run_again(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(), max_attempts=1)
    await sweeper.sweep_stale_workers()
    assert tables.job(job_id)["is_available"]


async def test_the_delay_never_moves_a_job_forward_in_time(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    before = tables.query(
        "update graphile_worker._private_jobs set run_at = now() + interval '1 day' where id = %s returning run_at",
        job_id,
    )
    await sweeper.sweep_stale_workers()
    assert tables.job(job_id)["run_at"] == before[0]["run_at"]


async def test_threshold_and_delay_can_be_changed_for_one_sweep(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker("dead", "61 seconds"))
    tables.worker("fresh", "59 seconds")
    options = SweepStaleWorkersOptions(
        sweep_threshold=timedelta(seconds=60), recovery_delay=timedelta(milliseconds=1500)
    )
    assert (await sweeper.sweep_stale_workers(options)).worker_ids == ("dead",)
    job = tables.job(job_id)
    assert job["run_at"] - job["updated_at"] == timedelta(seconds=1.5)


async def test_a_config_can_be_given_for_a_sweep_and_options_go_before_it(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker("dead", "61 seconds"))
    config = WorkerRecoveryConfig().sweep_threshold(timedelta(seconds=60)).recovery_delay(timedelta(hours=1))
    options = SweepStaleWorkersOptions(recovery_delay=timedelta())
    assert (await sweeper.sweep_stale_workers_with_config(config, options)).recovered_count == 1
    assert tables.job(job_id)["is_available"]
    assert tables.job(job_id)["run_at"] <= tables.job(job_id)["updated_at"]


async def test_queue_locks_of_recovered_jobs_are_released(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker(), queue_name="q")
    tables.held_job(tables.worker("alive", "1 second"), queue_name="p")
    await sweeper.sweep_stale_workers()
    assert tables.queue("q")["locked_by"] is None
    assert tables.queue("p")["locked_by"] == "alive"


async def test_a_queue_that_a_dead_worker_holds_without_a_job_is_released(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(), queue_name="q")
    tables.query("delete from graphile_worker._private_jobs where id = %s", job_id)
    result = await sweeper.sweep_stale_workers()
    assert (result.worker_ids, result.recovered_count) == (("dead",), 0)
    assert tables.queue("q")["locked_by"] is None


async def test_a_dry_run_names_the_dead_and_changes_nothing(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker(), queue_name="q")
    before = tables.job(job_id)
    result = await sweeper.sweep_stale_workers(SweepStaleWorkersOptions(dry_run=True))
    assert (result.worker_ids, result.recovered_count) == (("dead",), 0)
    assert [(each.job_id, each.decision) for each in result.recoveries] == [(job_id, "requeue")]
    assert tables.job(job_id) == before
    assert (tables.queue("q")["locked_by"], tables.workers(), tables.crashes(), tables.lost_workers()) == (
        "dead", ["dead"], [], [],
    )  # fmt: skip


async def test_while_another_sweep_runs_this_one_ends_at_once_and_says_so(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker())
    with tables.connection.transaction():
        tables.query("select pg_advisory_xact_lock(%s, hashtext('graphile_worker'))", 0x46525357)
        result = await sweeper.sweep_stale_workers()
        assert (result.is_already_running, result.worker_ids, result.recovered_count) == (True, (), 0)
    assert tables.job(job_id)["locked_by"] == "dead"
    assert (await sweeper.sweep_stale_workers()).recovered_count == 1


async def test_sweeps_of_other_schemas_do_not_matter(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker())
    with tables.connection.transaction():
        tables.query("select pg_advisory_xact_lock(%s, hashtext('another_schema'))", 0x46525357)
        assert (await sweeper.sweep_stale_workers()).recovered_count == 1


async def test_a_sweep_with_nothing_to_find_does_nothing(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker("alive", "1 second"))
    result = await sweeper.sweep_stale_workers()
    assert (result.worker_ids, result.recovered_count, result.recoveries) == ((), 0, ())
    assert not result.is_already_running


def test_the_blocking_client_sweeps_too(tables: Tables, sync_sweeper: SyncClient) -> None:
    job_id = tables.held_job(tables.worker())
    assert sync_sweeper.sweep_stale_workers().recovered_count == 1
    assert tables.job(job_id)["attempts"] == 0


async def test_workers_hear_of_recovered_jobs(tables: Tables, sweeper: Client, database: str) -> None:
    tables.held_job(tables.worker())
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute('listen "jobs:insert"')
        await sweeper.sweep_stale_workers()
        assert len([*listener.notifies(timeout=DEADLINE_SECONDS, stop_after=1)]) == 1


@pytest.mark.parametrize("flag_value", ["true", "1", '"yes"', "{}"])
async def test_a_worker_with_a_resilient_job_may_be_silent_three_times_as_long(
    tables: Tables, sweeper: Client, flag_value: str
) -> None:
    patient, late = tables.worker("patient", "14 minutes"), tables.worker("late", "16 minutes")
    for worker in (patient, late):
        job_id = tables.held_job(worker)
        flags = f'{{"{INFRASTRUCTURE_RESILIENT_FLAG}": {flag_value}}}'
        tables.query("update graphile_worker._private_jobs set flags = %s::jsonb where id = %s", flags, job_id)
    assert (await sweeper.sweep_stale_workers()).worker_ids == ("late",)


@pytest.mark.parametrize("flag_value", ["false", "null", "0", '""'])
async def test_a_resilient_flag_must_be_truthy(tables: Tables, sweeper: Client, flag_value: str) -> None:
    job_id = tables.held_job(tables.worker("dead", "6 minutes"))
    flags = f'{{"{INFRASTRUCTURE_RESILIENT_FLAG}": {flag_value}}}'
    tables.query("update graphile_worker._private_jobs set flags = %s::jsonb where id = %s", flags, job_id)
    assert (await sweeper.sweep_stale_workers()).worker_ids == ("dead",)


async def test_a_resilient_flag_must_be_present(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker("dead", "6 minutes"), flags=["another_flag"])
    assert (await sweeper.sweep_stale_workers()).worker_ids == ("dead",)


async def test_flags_and_multiplier_can_be_chosen(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker("patient", "9 minutes"), flags=["custom_resilient"])
    tables.held_job(tables.worker("ordinary", "9 minutes"), flags=[INFRASTRUCTURE_RESILIENT_FLAG])
    config = WorkerRecoveryConfig(resilient_job_flags=["custom_resilient"], resilient_sweep_threshold_multiplier=2)
    assert (await sweeper.sweep_stale_workers_with_config(config)).worker_ids == ("ordinary",)


async def test_the_flag_of_a_job_comes_from_its_spec(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker("patient", "14 minutes"), flags=[INFRASTRUCTURE_RESILIENT_FLAG])
    assert (await sweeper.sweep_stale_workers()).worker_ids == ()


async def test_active_workers_are_listed_with_their_staleness(tables: Tables, sweeper: Client) -> None:
    tables.worker("old", "2 minutes", pid=7, beat_interval=30)
    tables.worker("new", "1 second")
    tables.query("update graphile_worker._private_workers set started_at = now() - interval '1 day' where id = 'old'")
    old, new = await sweeper.list_active_workers(timedelta(seconds=60))
    assert (old.worker_id, old.is_stale, old.metadata) == ("old", True, {"pid": 7, "beat_interval": 30})
    assert (new.worker_id, new.is_stale) == ("new", False)
    assert new.last_heartbeat_at - old.last_heartbeat_at > timedelta(minutes=1)
    assert new.started_at - old.started_at > timedelta(hours=23)


async def test_time_in_which_the_server_was_down_does_not_count(tables: Tables, just_up: str) -> None:
    """The server was started just now: no worker could send a heartbeat before."""
    tables.held_job(tables.worker("dead", "1 hour"))
    async with Client(just_up) as client:
        assert (await client.sweep_stale_workers()).worker_ids == ()


async def test_a_worker_is_never_silent_before_two_of_its_own_beats_were_due(tables: Tables, sweeper: Client) -> None:
    tables.worker("slow beats", "90 seconds", beat_interval=60)
    tables.worker("quick beats", "90 seconds", beat_interval=5)
    options = SweepStaleWorkersOptions(sweep_threshold=timedelta(seconds=10))
    assert (await sweeper.sweep_stale_workers(options)).worker_ids == ("quick beats",)


async def test_a_worker_that_says_nonsense_about_itself_is_swept_all_the_same(
    tables: Tables, sweeper: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_nobody(monkeypatch)
    tables.held_job(tables.worker("dead", beat_interval="often", prefetches="perhaps", on_crash=3))
    assert (await sweeper.sweep_stale_workers()).recovered_count == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"sweep_threshold": timedelta()}, "sweep_threshold must be positive; got 0 s"),
        ({"sweep_threshold": 60}, "sweep_threshold must be a timedelta, not int"),
        ({"recovery_delay": timedelta(seconds=-1)}, "recovery_delay must be 0 or more; got -1 s"),
        ({"worker_ids": "worker-1"}, "worker_ids must be a list of ids; got the single string 'worker-1'"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidJobError, match=told):
        SweepStaleWorkersOptions(**wrong)
