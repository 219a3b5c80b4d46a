from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.functions import Functions, Row


def test_a_beat_registers_a_worker_and_later_ones_keep_its_start(functions: Functions) -> None:
    functions.query("select graphile_worker.worker_heartbeat('w', '{\"pid\": 1}')")
    functions.query(
        "update graphile_worker._private_workers set last_heartbeat_at = '2000-01-01', started_at = '2000-01-01'"
    )
    functions.query("select graphile_worker.worker_heartbeat('w')")
    (worker,) = _workers(functions)
    assert (worker["metadata"], worker["started_at"].year) == ({"pid": 1}, 2000)
    assert worker["last_heartbeat_at"].year > 2000


def test_a_worker_can_leave(functions: Functions) -> None:
    for worker in ("stays", "leaves"):
        functions.query("select graphile_worker.worker_heartbeat(%s)", worker)
    functions.query("select graphile_worker.worker_deregister('leaves')")
    assert [worker["id"] for worker in _workers(functions)] == ["stays"]


def test_a_worker_is_stale_when_its_last_beat_is_too_old(functions: Functions) -> None:
    _beat(functions, "fresh", "1 minute")
    _beat(functions, "stale", "6 minutes")
    found = functions.query("select worker_id from graphile_worker.list_stale_workers('5 minutes')")
    assert found == [{"worker_id": "stale"}]


def test_orphans_hold_something_for_long_and_are_not_registered(functions: Functions) -> None:
    _beat(functions, "registered", "1 hour")
    for worker, age in [("registered", "1 hour"), ("orphan", "1 hour"), ("busy", "1 minute")]:
        functions.claim(functions.add_job(queue_name=worker)["id"], worker, age)
    functions.lock_queue("busy", "holds only a queue", "1 day")
    found = functions.query("select worker_id from graphile_worker.list_orphan_locked_workers('5 minutes') order by 1")
    assert [row["worker_id"] for row in found] == ["holds only a queue", "orphan"]


def test_the_jobs_and_queues_of_dead_workers_are_given_back(functions: Functions) -> None:
    dead = functions.claim(functions.add_job(queue_name="q")["id"], "dead")
    alive = functions.claim(functions.add_job(queue_name="p")["id"], "alive")
    assert _recover(functions, "dead", delay="1500 milliseconds") == 1
    recovered = functions.job(dead["id"])
    assert (recovered["locked_by"], recovered["locked_at"], recovered["attempts"]) == (None, None, 0)
    assert recovered["last_error"] == "Job recovered after worker interruption"
    assert (recovered["run_at"] - recovered["updated_at"]).total_seconds() == 1.5
    assert functions.queue("q")["locked_by"] is None
    assert functions.job(alive["id"]) == alive
    assert functions.queue("p")["locked_by"] == "alive"


def test_a_queue_without_a_job_is_freed_but_not_counted(functions: Functions) -> None:
    functions.claim(functions.add_job(queue_name="q")["id"], "dead")
    functions.query("delete from graphile_worker._private_jobs")
    assert _recover(functions, "dead") == 0
    assert functions.queue("q")["locked_by"] is None


def test_a_job_on_its_last_attempt_is_given_back(functions: Functions) -> None:
    last = functions.claim(functions.add_job(max_attempts=1)["id"], "dead")
    assert _recover(functions, "dead") == 1
    assert functions.job(last["id"])["is_available"]


def test_a_job_that_was_replaced_while_it_ran_stays_replaced(functions: Functions) -> None:
    replaced = functions.claim(functions.add_job(job_key="k")["id"], "dead")
    functions.add_job(job_key="k")
    assert _recover(functions, "dead") == 1
    recovered = functions.job(replaced["id"])
    assert (recovered["locked_by"], recovered["is_available"]) == (None, False)


def test_a_job_that_was_removed_while_it_ran_stays_removed(functions: Functions) -> None:
    removed = functions.claim(functions.add_job(job_key="k")["id"], "dead")
    functions.remove_job("k")
    _recover(functions, "dead")
    assert not functions.job(removed["id"])["is_available"]


def test_stale_workers_are_forgotten_by_name(functions: Functions) -> None:
    for worker in ("one", "two", "three"):
        functions.query("select graphile_worker.worker_heartbeat(%s)", worker)
    functions.query("select graphile_worker.delete_stale_workers(array['one', 'three'])")
    assert [worker["id"] for worker in _workers(functions)] == ["two"]


def _workers(functions: Functions) -> list[Row]:
    return functions.query("select * from graphile_worker._private_workers order by id")


def _beat(functions: Functions, worker: str, age: str) -> None:
    functions.query("select graphile_worker.worker_heartbeat(%s)", worker)
    functions.query(
        "update graphile_worker._private_workers set last_heartbeat_at = now() - %s::interval where id = %s",
        age,
        worker,
    )


def _recover(functions: Functions, worker: str, delay: str = "0 seconds") -> int:
    (row,) = functions.query(
        "select graphile_worker.recover_dead_worker_jobs(array[%s], %s::interval) as count", worker, delay
    )
    return row["count"]
