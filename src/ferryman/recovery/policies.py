"""The crash policies of tasks, in a form that any sweeper can read from the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.queries.sweep import upsert_task_policies
from ferryman.retries import FixedDelay, LinearDelay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferryman.database.steps import Steps
    from ferryman.retries import OnCrash, RetryPolicy
    from ferryman.tasks import Task


def store_policies(tasks: Iterable[Task[..., Any]]) -> Steps[tuple[str, ...]]:
    """Store the policies of these tasks, when a worker starts. Returns the tasks whose stored policy changed."""
    documents = [{"task_identifier": name, **_policy(task)} for task in tasks for name in task.identifiers]
    if not documents:
        return ()
    rows = yield upsert_task_policies(documents)
    return tuple(identifier for (identifier,) in rows)


def own_policies(tasks: Iterable[Task[..., Any]]) -> Mapping[str, Mapping[str, Any]]:
    """The policies that a worker's row names, by task, without tasks that leave everything to the config.

    A sweeper judges the jobs of a dead worker by these. The stored ones are those of the worker that started last.
    """
    return {name: policy for task in tasks if (policy := _own_policy(task)) for name in task.identifiers}


def must_be_marked(on_crash: OnCrash | None, default: OnCrash) -> bool:
    """True if the start of a job that was claimed ahead must be marked, so that a crash is judged correctly.

    on_crash: the policy of the task
    default: the policy of the worker's config, which it also registers as `on_crash` in its metadata
    """
    return (on_crash or default) != "requeue"


def _policy(task: Task[..., Any]) -> Mapping[str, Any]:
    """The policy of a task as it is stored. A delay that a function computes cannot be; Graphile's is used instead."""
    delays = _delays(task.running.retry) if task.running.on_crash == "retry" else {}
    return {"on_crash": task.running.on_crash, **delays}


def _own_policy(task: Task[..., Any]) -> Mapping[str, Any]:
    chosen = {name: value for name, value in _policy(task).items() if value is not None}
    limit = task.running.max_crashes
    return chosen if limit is msgspec.UNSET else {**chosen, "max_crashes": limit}


def _delays(policy: RetryPolicy) -> Mapping[str, float | None]:
    match policy:
        case FixedDelay():
            base, step, most, jitter = policy.seconds, 0.0, None, policy.jitter
        case LinearDelay():
            base, step, most, jitter = 0.0, policy.step_seconds, policy.most_seconds, policy.jitter
        case _:
            return {}
    return {
        "retry_base_seconds": base,
        "retry_step_seconds": step,
        "retry_most_seconds": most,
        "retry_jitter": jitter,
    }
