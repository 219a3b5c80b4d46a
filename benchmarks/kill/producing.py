"""The producer: a process that adds the jobs of the plan, as many as it is allowed to."""

from __future__ import annotations

import itertools
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg

from ferryman import JobSpec, RawJobSpec, SyncClient

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.kill.plan import JobPlan
    from benchmarks.kill.recorder import Recorder
    from ferryman import Job

LARGEST_GROUP = 20
BATCH_ITEMS = 3


def produce(jobs: Iterable[JobPlan], dsn: str, recorder: Recorder, allowances: int) -> NoReturn:
    """Add as many jobs as lines come in from the descriptor `allowances`; exit at its end."""
    code = 1
    try:
        with SyncClient(dsn) as client, os.fdopen(allowances) as lines, psycopg.connect(dsn) as own:
            upcoming = iter(jobs)
            for line in lines:
                for group in _groups(itertools.islice(upcoming, int(line))):
                    _add(client, own, group, recorder)
        code = 0
    finally:
        os._exit(code)


def _groups(jobs: Iterator[JobPlan]) -> Iterator[list[JobPlan]]:
    """Group jobs for adding: plain jobs together; jobs with keys, and those to be rolled back, alone."""
    for is_single, run in itertools.groupby(jobs, key=lambda job: job.key is not None or job.is_undone):
        members = list(run)
        size = 1 if is_single else LARGEST_GROUP
        for start in range(0, len(members), size):
            yield members[start : start + size]


def _add(client: SyncClient, own: psycopg.Connection[Any], group: list[JobPlan], recorder: Recorder) -> None:
    for plan in group:
        recorder.note("adding", number=plan.number, task=plan.task, key=plan.key, is_undone=plan.is_undone)
    specs = [RawJobSpec(plan.task, payload(plan), spec(plan)) for plan in group]
    if group[0].is_undone:
        client.add_raw_jobs(specs, using=own)
        own.rollback()
        return
    added: list[Job]
    if group[0].key is not None:
        added = [client.add_raw_job(specs[0].identifier, specs[0].payload, specs[0].spec)]
    else:
        added = [*client.add_raw_jobs(specs)]
    for plan, job in zip(group, added, strict=True):
        recorder.note("added", number=plan.number, job=job.id, key=plan.key, max_attempts=plan.max_attempts)


def payload(plan: JobPlan) -> Any:
    """Return the payload for a job's handler."""
    order = {"number": plan.number, "seconds": plan.seconds, "fails": plan.fails}
    if plan.task == "batch":
        return [order] * BATCH_ITEMS
    return {**order, "exits": plan.exits, "stops": plan.stops}


def spec(plan: JobPlan) -> JobSpec:
    """Return the scheduling of a job."""
    due = datetime.fromtimestamp(time.time(), UTC) + timedelta(seconds=plan.delay)
    return JobSpec(
        queue_name=plan.queue,
        job_key=plan.key,
        max_attempts=plan.max_attempts,
        run_at=due if plan.delay else None,
    )
