"""Locks older than four hours: a queue is freed with its job, unless somebody took it since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.tables import Tables


@pytest.mark.parametrize("removal", ["complete", "remove"])
def test_a_forgotten_queue_is_freed_with_its_job(tables: Tables, removal: str) -> None:
    job = tables.claim(tables.add_job(queue_name="q", job_key="k")["id"], age="5 hours")
    _take_away(tables, removal, job["id"])
    assert tables.jobs() == []
    assert tables.queue("q")["is_available"]


@pytest.mark.parametrize("removal", ["complete", "remove"])
@pytest.mark.parametrize(("worker", "age"), [("worker-1", "1 minute"), ("worker-2", "5 hours")])
def test_a_queue_that_was_taken_since_stays_taken(tables: Tables, removal: str, worker: str, age: str) -> None:
    job = tables.claim(tables.add_job(queue_name="q", job_key="k")["id"], age="5 hours")
    tables.lock_queue("q", worker, age)
    _take_away(tables, removal, job["id"])
    assert tables.queue("q")["locked_by"] == worker


def _take_away(tables: Tables, removal: str, job_id: int) -> None:
    if removal == "complete":
        tables.complete_jobs(job_id)
    else:
        tables.remove_job("k")
