"""Locks older than four hours: a queue is freed with its job, unless somebody took it since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.functions import Functions


@pytest.mark.parametrize("removal", ["complete", "remove"])
def test_a_forgotten_queue_is_freed_with_its_job(functions: Functions, removal: str) -> None:
    job = functions.claim(functions.add_job(queue_name="q", job_key="k")["id"], age="5 hours")
    _take_away(functions, removal, job["id"])
    assert functions.jobs() == []
    assert functions.queue("q")["is_available"]


@pytest.mark.parametrize("removal", ["complete", "remove"])
@pytest.mark.parametrize(("worker", "age"), [("worker-1", "1 minute"), ("worker-2", "5 hours")])
def test_a_queue_that_was_taken_since_stays_taken(functions: Functions, removal: str, worker: str, age: str) -> None:
    job = functions.claim(functions.add_job(queue_name="q", job_key="k")["id"], age="5 hours")
    functions.lock_queue("q", worker, age)
    _take_away(functions, removal, job["id"])
    assert functions.queue("q")["locked_by"] == worker


def _take_away(functions: Functions, removal: str, job_id: int) -> None:
    if removal == "complete":
        functions.complete_jobs(job_id)
    else:
        functions.remove_job("k")
