"""The workers whose jobs a sweep recovers: silent, lost, unregistered (of Ferryman) and named ones."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman import Client
from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG, WorkerRecoveryConfig
from ferryman.recovery.sweep_results import SweepStaleWorkersOptions
from tests.support.logs import logged
from tests.support.sweeps import seen, sweep_as_worker, watch_nobody

if TYPE_CHECKING:
    from tests.support.tables import Tables


OURS = "ferryman-0123456789abcdef01"
RUSTS = "graphile_worker_0123456789abcdef01"


async def test_jobs_of_a_worker_that_is_no_longer_registered_are_recovered(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(OURS, age="6 minutes", queue_name="q")
    result = await sweeper.sweep_stale_workers()
    assert result.worker_ids == (OURS,)
    assert [(each.job_id, each.reason, each.started) for each in result.recoveries] == [(job_id, "unregistered", None)]
    assert tables.queue("q")["locked_by"] is None


async def test_an_orphan_has_held_its_lock_for_longer_than_the_threshold(tables: Tables, sweeper: Client) -> None:
    tables.held_job(OURS, age="4 minutes")
    assert (await sweeper.sweep_stale_workers()).worker_ids == ()


async def test_an_orphan_that_takes_new_jobs_is_alive(tables: Tables, sweeper: Client) -> None:
    tables.held_job(OURS, age="1 hour")
    tables.held_job(OURS, age="1 minute")
    assert (await sweeper.sweep_stale_workers()).worker_ids == ()


async def test_an_orphan_with_a_resilient_job_has_more_time_too(tables: Tables, sweeper: Client) -> None:
    tables.held_job(OURS, age="14 minutes", flags=[INFRASTRUCTURE_RESILIENT_FLAG])
    assert (await sweeper.sweep_stale_workers()).worker_ids == ()


async def test_a_queue_that_an_orphan_holds_without_a_job_is_released(tables: Tables, sweeper: Client) -> None:
    tables.add_job(queue_name="q")
    tables.lock_queue("q", OURS, "1 hour")
    result = await sweeper.sweep_stale_workers()
    assert (result.worker_ids, result.recovered_count) == ((OURS,), 0)
    assert tables.queue("q")["locked_by"] is None


@pytest.mark.parametrize(
    "foreign",
    ["worker-0123456789abcdef01", "mine", "x-ferryman-1", "Ferryman-1", RUSTS, "ferryman_unregistered-01"],
)
async def test_node_pools_and_other_strangers_are_left_to_their_own_rules(
    tables: Tables, sweeper: Client, foreign: str
) -> None:
    job_id = tables.held_job(foreign, age="1 day")
    assert (await sweeper.sweep_stale_workers()).worker_ids == ()
    assert tables.job(job_id)["locked_by"] == foreign


async def test_strangers_that_are_silent_are_named_and_freed_after_a_time_out_of_your_choice(
    tables: Tables, sweeper: Client
) -> None:
    node = "worker-0123456789abcdef01"
    first, second = tables.held_job(node, age="2 hours"), tables.held_job(node, age="90 minutes")
    tables.held_job("busy", age="1 minute")
    result = await sweeper.sweep_stale_workers()
    [stranger] = result.unregistered
    assert (stranger.worker_id, stranger.jobs, stranger.job_ids) == (node, 2, (first, second))
    assert stranger.seconds == pytest.approx(5400, abs=60)
    later = SweepStaleWorkersOptions(unregistered_lock_timeout=timedelta(hours=2))
    assert (await sweeper.sweep_stale_workers(later)).worker_ids == ()
    config = WorkerRecoveryConfig(unregistered_lock_timeout=timedelta(hours=1))
    found = await sweeper.sweep_stale_workers_with_config(config)
    assert (found.worker_ids, found.recovered_count, found.unregistered) == ((node,), 2, ())


async def test_a_stranger_that_was_freed_once_falls_under_its_own_rules_again(tables: Tables, sweeper: Client) -> None:
    tables.held_job("stranger", age="2 hours")
    options = SweepStaleWorkersOptions(unregistered_lock_timeout=timedelta(hours=1))
    assert (await sweeper.sweep_stale_workers(options)).worker_ids == ("stranger",)
    tables.held_job("stranger", age="6 minutes")
    assert (await sweeper.sweep_stale_workers()).worker_ids == ()


async def test_a_rust_worker_does_not_say_how_often_it_beats_and_is_given_two_of_its_usual_beats(
    tables: Tables, sweeper: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_nobody(monkeypatch)
    tables.held_job(tables.worker("rust", "55 seconds", beat_interval=None))
    options = SweepStaleWorkersOptions(sweep_threshold=timedelta(seconds=20))
    assert (await sweeper.sweep_stale_workers(options)).worker_ids == ()
    tables.worker("rust", "65 seconds", beat_interval=None)
    assert (await sweeper.sweep_stale_workers(options)).worker_ids == ("rust",)


@pytest.mark.parametrize("dated", ["infinity", "-infinity"])
async def test_a_lock_without_a_usable_date_stops_neither_the_search_for_orphans_nor_recovery(
    tables: Tables, sweeper: Client, dated: str
) -> None:
    odd, usual = (tables.held_job(tables.worker(), queue_name=name) for name in ("a", "b"))
    orphan, stranger = tables.held_job(OURS), tables.held_job("stranger")
    tables.query("update graphile_worker._private_jobs set locked_at = %s where id = any(%s)", dated, [odd, stranger])
    result = await sweeper.sweep_stale_workers()
    assert {each.job_id for each in result.recoveries} == {odd, usual, orphan}
    assert [each.worker_id for each in result.unregistered] == ["stranger"]


async def test_a_job_that_cannot_be_recovered_is_set_aside_and_the_others_are_recovered(
    tables: Tables, sweeper: Client, caplog: pytest.LogCaptureFixture
) -> None:
    tables.policy("retry")
    jobs = [tables.held_job(tables.worker()) for _ in range(3)]
    latest = "294276-12-31 23:59:59Z"
    tables.query("update graphile_worker._private_jobs set run_at = %s where id = %s", latest, jobs[1])
    result = await sweep_as_worker(sweeper)
    assert [each.job_id for each in result.recoveries] == [jobs[0], jobs[2]]
    assert result.unreadable_job_ids == (jobs[1],)
    assert tables.workers() == ["dead"]
    [record] = logged(caplog, "job_not_recovered", job_id=jobs[1])
    assert "out of range" in record.getMessage()


async def test_a_job_whose_recovery_a_trigger_refuses_is_set_aside_too(tables: Tables, sweeper: Client) -> None:
    jobs = [tables.held_job(tables.worker()) for _ in range(3)]
    tables.query(
        f"create function refuse() returns trigger language plpgsql as $$ begin "
        f"if new.id = {jobs[1]} then raise 'not this one'; end if; return new; end $$"
    )
    tables.query(
        "create trigger refuse before update on graphile_worker._private_jobs "
        "for each row execute function public.refuse()"
    )
    result = await sweep_as_worker(sweeper)
    assert [each.job_id for each in result.recoveries] == [jobs[0], jobs[2]]
    assert result.unreadable_job_ids == (jobs[1],)


async def test_a_beat_without_a_usable_date_stops_no_sweep(tables: Tables, sweeper: Client) -> None:
    tables.worker("odd")
    tables.query("update graphile_worker._private_workers set last_heartbeat_at = 'infinity'")
    held = tables.held_job("odd")
    tables.held_job(tables.worker())
    assert (await sweeper.sweep_stale_workers()).worker_ids == ("dead",)
    named = await sweeper.sweep_stale_workers(SweepStaleWorkersOptions(worker_ids=["odd"]))
    assert [each.job_id for each in named.recoveries] == [held]


async def test_whoever_was_registered_once_is_swept_under_any_name(tables: Tables, sweeper: Client) -> None:
    tables.worker("mine", host="h")
    await sweeper.sweep_stale_workers()
    tables.held_job("mine", age="6 minutes")
    assert (await sweeper.sweep_stale_workers()).worker_ids == ("mine",)
    (lost,) = await sweeper.list_lost_workers()
    assert (lost.reason, lost.recovered_jobs, lost.metadata) == ("unregistered", 1, {"host": "h", "beat_interval": 0})


async def test_a_worker_that_the_operator_names_is_swept_at_once_whoever_it_is(tables: Tables, sweeper: Client) -> None:
    node, alive = "worker-0123456789abcdef01", tables.worker("alive", "1 second")
    jobs = [tables.held_job(node, age="1 second"), tables.held_job(alive, age="1 second")]
    bystander = tables.held_job(tables.worker("dead"))
    result = await sweeper.sweep_stale_workers(SweepStaleWorkersOptions(worker_ids=[node, alive]))
    assert set(result.worker_ids) == {node, alive}
    assert {(each.job_id, each.reason) for each in result.recoveries} == {(job_id, "by hand") for job_id in jobs}
    assert tables.job(bystander)["locked_by"] == "dead"


async def test_naming_nobody_sweeps_nobody(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker())
    assert (await sweeper.sweep_stale_workers(SweepStaleWorkersOptions(worker_ids=[]))).worker_ids == ()


async def test_a_worker_whose_session_was_lost_is_swept_whatever_the_age_of_its_beat(
    tables: Tables, sweeper: Client
) -> None:
    job_id = tables.held_job(tables.worker("dead", "10 seconds"))
    result = await sweep_as_worker(sweeper, observed=[seen(tables, "dead")])
    assert [(each.job_id, each.reason) for each in result.recoveries] == [(job_id, "session lost")]
    assert tables.workers() == []


async def test_a_worker_that_beat_since_it_was_observed_is_alive(tables: Tables, sweeper: Client) -> None:
    job_id = tables.held_job(tables.worker("alive", "10 seconds"))
    observed = [seen(tables, "alive"), seen(tables, "alive", "silent", 1e6)]
    tables.query("select graphile_worker.worker_heartbeat('alive')")
    assert (await sweep_as_worker(sweeper, observed=observed)).worker_ids == ()
    assert tables.job(job_id)["locked_by"] == "alive"


async def test_whoever_observes_goes_by_what_it_saw_and_not_by_the_clock(tables: Tables, sweeper: Client) -> None:
    tables.held_job(tables.worker("looks old", "1 day"))
    assert (await sweep_as_worker(sweeper, observed=[])).worker_ids == ()
    brief = seen(tables, "looks old", "silent", 299)
    assert (await sweep_as_worker(sweeper, observed=[brief])).worker_ids == ()
    long = seen(tables, "looks old", "silent", 301)
    assert (await sweep_as_worker(sweeper, observed=[long])).worker_ids == ("looks old",)


async def test_a_worker_with_a_resilient_job_survives_the_loss_of_its_session(tables: Tables, sweeper: Client) -> None:
    """It may be cut off and still at work, which is what the flag is for: the extended threshold decides."""
    tables.held_job(tables.worker("patient", "10 seconds"), flags=[INFRASTRUCTURE_RESILIENT_FLAG])
    assert (await sweep_as_worker(sweeper, observed=[seen(tables, "patient", silent_for=899)])).worker_ids == ()
    late = seen(tables, "patient", silent_for=901)
    assert (await sweep_as_worker(sweeper, observed=[late])).worker_ids == ("patient",)


async def test_nobody_sweeps_itself(tables: Tables, sweeper: Client) -> None:
    """A worker whose own heartbeats have stopped is still alive. Other workers must judge it."""
    tables.held_job(tables.worker("sweeper"))
    assert (await sweep_as_worker(sweeper)).worker_ids == ()


async def test_orphans_are_looked_for_only_when_asked(tables: Tables, sweeper: Client) -> None:
    tables.held_job(OURS, age="1 hour")
    assert (await sweep_as_worker(sweeper, finds_orphans=False)).worker_ids == ()
    assert (await sweep_as_worker(sweeper)).worker_ids == (OURS,)


async def test_locks_from_before_the_server_was_started_have_their_time_again(tables: Tables, just_up: str) -> None:
    """No worker could register while the server was down."""
    tables.held_job(OURS, age="1 hour")
    async with Client(just_up) as client:
        assert (await client.sweep_stale_workers()).worker_ids == ()
        options = SweepStaleWorkersOptions(sweep_threshold=timedelta(microseconds=1))
        assert (await client.sweep_stale_workers(options)).worker_ids == (OURS,)


async def test_nonsense_that_a_worker_tells_of_itself_stops_no_sweep(sweeper: Client, tables: Tables) -> None:
    tables.connection.execute(
        "insert into graphile_worker._private_workers (id, last_heartbeat_at, metadata)"
        " values ('odd', now() - interval '1 day', jsonb_build_object('beat_interval', 10::numeric ^ 400))"
    )

    result = await sweeper.sweep_stale_workers()

    assert not result.is_already_running
