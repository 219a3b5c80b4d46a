"""Orders for the tasks of the tests."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ferryman.jobs import Job, JobState
from ferryman.worker.running.children.orders import ChildOrder
from tests.worker.children.tasks import app

if TYPE_CHECKING:
    from ferryman import Task

_ids = itertools.count(1)
_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def order_for(task: Task[..., Any] | str, *args: Any, **kwargs: Any) -> ChildOrder:
    """An order for a job with these arguments; a task class is named by its identifier."""
    found = app.tasks[task] if isinstance(task, str) else task
    return ChildOrder.of(found, job_of(found.identifier, found.job(*args, **kwargs).payload_json), "worker-1")


def job_of(identifier: str, payload_json: str) -> Job:
    return Job(
        id=next(_ids),
        task_identifier=identifier,
        payload_json=payload_json,
        queue_name=None,
        priority=0,
        run_at=_LONG_AGO,
        attempts=1,
        max_attempts=25,
        last_error=None,
        created_at=_LONG_AGO,
        updated_at=_LONG_AGO,
        key=None,
        locked_at=_LONG_AGO,
        locked_by="worker-1",
        revision=0,
        flags=(),
        state=JobState.RUNNING,
    )
