"""Outcomes that are gathered before they are written are told one by one, once each, after they were written."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import JobSpec, RawJobSpec
from ferryman.hooks import HookRegistry, JobComplete, JobFail, JobPermanentlyFail
from tests.support.workers import jobs, queues, run_all

if TYPE_CHECKING:
    import psycopg

    from ferryman import App, Client

pytestmark = pytest.mark.claims

GATHERING = timedelta(milliseconds=100)


async def test_gathered_outcomes_are_told_once_each(app: App, client: Client, connection: psycopg.Connection) -> None:
    hooks, told = HookRegistry(), []

    def note(event: Any) -> None:
        left = {job.id: job.locked_at for job in jobs(connection)}
        told.append((type(event).__name__, event.job.payload["number"]))
        assert left.get(event.job.id) is None, "told before it was written"

    for kind in (JobComplete, JobFail, JobPermanentlyFail):
        hooks.on(kind, note)

    @app.task
    async def end(number: int) -> None:
        if number >= 2:
            raise ValueError("x")

    await client.add_raw_jobs(
        [
            RawJobSpec("end", {"number": 0}),
            RawJobSpec("end", {"number": 1}, JobSpec(queue_name="a")),
            RawJobSpec("end", {"number": 2}, JobSpec(queue_name="b", max_attempts=3)),
            RawJobSpec("end", {"number": 3}, JobSpec(queue_name="c", max_attempts=1)),
        ]
    )
    await run_all(app, hooks=hooks, complete_job_batch_delay=GATHERING, fail_job_batch_delay=GATHERING)

    assert Counter(told) == Counter([("JobComplete", 0), ("JobComplete", 1), ("JobFail", 2), ("JobPermanentlyFail", 3)])
    assert [(job.attempts, job.max_attempts, job.locked_at) for job in jobs(connection)] == [(1, 3, None), (1, 1, None)]
    assert {queue.locked_at for queue in queues(connection)} == {None}
