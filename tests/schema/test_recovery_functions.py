from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.tables import Row, Tables


def test_a_beat_registers_a_worker_and_later_ones_keep_its_start(tables: Tables) -> None:
    tables.query("select graphile_worker.worker_heartbeat('w', '{\"pid\": 1}')")
    tables.query(
        "update graphile_worker._private_workers set last_heartbeat_at = '2000-01-01', started_at = '2000-01-01'"
    )
    tables.query("select graphile_worker.worker_heartbeat('w')")
    (worker,) = _workers(tables)
    assert (worker["metadata"], worker["started_at"].year) == ({"pid": 1}, 2000)
    assert worker["last_heartbeat_at"].year > 2000


def test_a_worker_can_leave(tables: Tables) -> None:
    for worker in ("stays", "leaves"):
        tables.query("select graphile_worker.worker_heartbeat(%s)", worker)
    tables.query("select graphile_worker.worker_deregister('leaves')")
    assert [worker["id"] for worker in _workers(tables)] == ["stays"]


def test_a_worker_is_stale_when_its_last_beat_is_too_old(tables: Tables) -> None:
    _beat(tables, "fresh", "1 minute")
    _beat(tables, "stale", "6 minutes")
    found = tables.query("select worker_id from graphile_worker.list_stale_workers('5 minutes')")
    assert found == [{"worker_id": "stale"}]


def test_orphans_hold_something_for_long_and_are_not_registered(tables: Tables) -> None:
    _beat(tables, "registered", "1 hour")
    for worker, age in [("registered", "1 hour"), ("orphan", "1 hour"), ("busy", "1 minute")]:
        tables.claim(tables.add_job(queue_name=worker)["id"], worker, age)
    tables.lock_queue("busy", "holds only a queue", "1 day")
    found = tables.query("select worker_id from graphile_worker.list_orphan_locked_workers('5 minutes') order by 1")
    assert [row["worker_id"] for row in found] == ["holds only a queue", "orphan"]


def test_the_jobs_and_queues_of_dead_workers_are_given_back(tables: Tables) -> None:
    dead = tables.claim(tables.add_job(queue_name="q")["id"], "dead")
    alive = tables.claim(tables.add_job(queue_name="p")["id"], "alive")
    assert _recover(tables, "dead", delay="1500 milliseconds") == 1
    recovered = tables.job(dead["id"])
    assert (recovered["locked_by"], recovered["locked_at"], recovered["attempts"]) == (None, None, 0)
    assert recovered["last_error"] == "Job recovered after worker interruption"
    assert (recovered["run_at"] - recovered["updated_at"]).total_seconds() == 1.5
    assert tables.queue("q")["locked_by"] is None
    assert tables.job(alive["id"]) == alive
    assert tables.queue("p")["locked_by"] == "alive"


def test_a_queue_without_a_job_is_freed_but_not_counted(tables: Tables) -> None:
    tables.claim(tables.add_job(queue_name="q")["id"], "dead")
    tables.query("delete from graphile_worker._private_jobs")
    assert _recover(tables, "dead") == 0
    assert tables.queue("q")["locked_by"] is None


def test_a_job_on_its_last_attempt_is_given_back(tables: Tables) -> None:
    last = tables.claim(tables.add_job(max_attempts=1)["id"], "dead")
    assert _recover(tables, "dead") == 1
    assert tables.job(last["id"])["is_available"]


def test_a_job_that_was_replaced_while_it_ran_stays_replaced(tables: Tables) -> None:
    replaced = tables.claim(tables.add_job(job_key="k")["id"], "dead")
    tables.add_job(job_key="k")
    assert _recover(tables, "dead") == 1
    recovered = tables.job(replaced["id"])
    assert (recovered["locked_by"], recovered["is_available"]) == (None, False)


def test_a_job_that_was_removed_while_it_ran_stays_removed(tables: Tables) -> None:
    removed = tables.claim(tables.add_job(job_key="k")["id"], "dead")
    tables.remove_job("k")
    _recover(tables, "dead")
    assert not tables.job(removed["id"])["is_available"]


def test_stale_workers_are_forgotten_by_name(tables: Tables) -> None:
    for worker in ("one", "two", "three"):
        tables.query("select graphile_worker.worker_heartbeat(%s)", worker)
    tables.query("select graphile_worker.delete_stale_workers(array['one', 'three'])")
    assert [worker["id"] for worker in _workers(tables)] == ["two"]


def _workers(tables: Tables) -> list[Row]:
    return tables.query("select * from graphile_worker._private_workers order by id")


def _beat(tables: Tables, worker: str, age: str) -> None:
    tables.query("select graphile_worker.worker_heartbeat(%s)", worker)
    tables.query(
        "update graphile_worker._private_workers set last_heartbeat_at = now() - %s::interval where id = %s",
        age,
        worker,
    )


def _recover(tables: Tables, worker: str, delay: str = "0 seconds") -> int:
    (row,) = tables.query(
        "select graphile_worker.recover_dead_worker_jobs(array[%s], %s::interval) as count", worker, delay
    )
    return row["count"]
