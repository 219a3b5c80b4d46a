"""Producers and workers that want the same rows at the same moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.background import in_background
from tests.support.tables import Tables
from tests.support.waiting import DEADLINE_SECONDS, until_somebody_waits

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.claims

CLAIM = """
    update graphile_worker._private_jobs
    set attempts = attempts + 1, locked_at = now(), locked_by = 'worker-1'
    where id = (select id from graphile_worker._private_jobs where is_available limit 1 for update skip locked)
    returning id, payload
"""
COMPLETE = "delete from graphile_worker._private_jobs where id = %s"


def test_a_keyed_job_is_not_lost_to_a_claim_in_flight(tables: Tables, database: str) -> None:
    waiting = tables.add_job(payload={"version": 1}, job_key="k")
    with psycopg.connect(database) as worker:
        worker.execute(CLAIM)
        adding = in_background(database, lambda mine: mine.add_job(payload={"version": 2}, job_key="k"))
        until_somebody_waits(tables.connection)
        worker.commit()
    added = adding.result(DEADLINE_SECONDS)
    assert added["payload"] == {"version": 2}
    claimed, successor = tables.jobs()
    assert (claimed["id"], claimed["key"], claimed["attempts"]) == (waiting["id"], None, claimed["max_attempts"])
    assert (successor["id"], successor["key"]) == (added["id"], "k")


def test_a_keyed_job_is_not_lost_to_a_claim_that_is_rolled_back(tables: Tables, database: str) -> None:
    waiting = tables.add_job(payload={"version": 1}, job_key="k")
    with psycopg.connect(database) as worker:
        worker.execute(CLAIM)
        adding = in_background(database, lambda mine: mine.add_job(payload={"version": 2}, job_key="k"))
        until_somebody_waits(tables.connection)
        worker.rollback()
    assert adding.result(DEADLINE_SECONDS)["id"] == waiting["id"]
    assert [job["payload"] for job in tables.jobs()] == [{"version": 2}]


def test_a_keyed_job_is_not_lost_to_a_completion_in_flight(tables: Tables, database: str) -> None:
    running = tables.claim(tables.add_job(job_key="k")["id"])
    with psycopg.connect(database) as worker:
        worker.execute(COMPLETE, [running["id"]])
        adding = in_background(database, lambda mine: mine.add_job(job_key="k"))
        until_somebody_waits(tables.connection)
        worker.commit()
    added = adding.result(DEADLINE_SECONDS)
    assert [(job["id"], job["key"]) for job in tables.jobs()] == [(added["id"], "k")]


def test_a_key_that_is_introduced_twice_at_once_is_one_job(tables: Tables, database: str) -> None:
    with psycopg.connect(database) as first:
        Tables(first).add_jobs({"payload": [1], "job_key": "k"}, {"payload": [1], "job_key": "l"})
        adding = in_background(
            database, lambda mine: mine.add_jobs({"payload": [2], "job_key": "l"}, {"payload": [2], "job_key": "k"})
        )
        until_somebody_waits(tables.connection)
        first.commit()
    assert [row["payload"] for row in adding.result(DEADLINE_SECONDS)] == [[1, 2], [1, 2]]
    assert len(tables.jobs()) == 2


def test_of_many_additions_to_a_key_that_is_being_worked_on_none_is_lost(database: str, tables: Tables) -> None:
    """Each addition is a number; every number must be in exactly one job that ran, or still waits."""
    producers, additions = 20, 50
    seen: list[int] = []
    finished = threading.Event()

    def work(mine: Tables) -> None:
        while not finished.is_set():
            for job in mine.query(CLAIM):
                seen.extend(job["payload"])
                mine.query(COMPLETE, job["id"])

    def produce(first: int) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            for number in range(first, first + additions):
                assert Tables(connection).add_job(payload=[number], job_key="k")["id"] is not None

    worker = in_background(database, work)
    _all_at_once([lambda n=n: produce(n * additions) for n in range(producers)])
    finished.set()
    worker.result(DEADLINE_SECONDS)
    seen += [number for job in tables.jobs() for number in job["payload"]]
    assert sorted(seen) == list(range(producers * additions))


def test_a_producer_holds_no_later_key_while_it_waits_for_an_earlier_one(tables: Tables, database: str) -> None:
    with psycopg.connect(database) as first:
        holder = Tables(first)
        holder.add_job(job_key="a")
        adding = in_background(database, lambda mine: mine.add_jobs({"job_key": "z"}, {"job_key": "a"}))
        until_somebody_waits(tables.connection)
        first.execute("set local lock_timeout = '60s'")
        holder.add_job(job_key="z")
        first.commit()
    assert [row["key"] for row in adding.result(DEADLINE_SECONDS)] == ["z", "a"]


def test_producers_with_the_same_keys_in_any_order_do_not_block_each_other(database: str) -> None:
    keys = [f"key {number}" for number in range(12)]
    orders = [keys, keys[::-1], keys[6:] + keys[:6], keys[::2] + keys[1::2]]

    def produce(order: list[str]) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            mine = Tables(connection)
            for _ in range(40):
                rows = mine.add_jobs(
                    *(
                        {"identifier": f"task of {key}", "queue_name": f"queue of {key}", "job_key": key}
                        for key in order
                    )
                )
                assert [row["key"] for row in rows] == order
                mine.query("update graphile_worker._private_jobs set locked_at = now() where key = %s", order[0])

    _all_at_once([lambda order=order: produce(order) for order in orders])


def _all_at_once(calls: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(max_workers=len(calls)) as executor:
        for future in [executor.submit(call) for call in calls]:
            future.result(DEADLINE_SECONDS)
