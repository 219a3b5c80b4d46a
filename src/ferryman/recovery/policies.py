"""What a crash means for the jobs of each task, in a form that any sweeper can read from the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferryman.queries import recovering
from ferryman.recovery.crashes import RECOVERED
from ferryman.retries import FixedDelay, LinearDelay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferryman.database.steps import Steps
    from ferryman.retries import OnCrash, RetryPolicy
    from ferryman.tasks import Task


def store_policies(tasks: Iterable[Task[..., Any]]) -> Steps[tuple[str, ...]]:
    """Store the policies of these tasks; says for which of them that changed anything. For workers when they start."""
    documents = [policy_document(task) for task in tasks]
    if not documents:
        return ()
    rows = yield recovering.upsert_task_policies(documents)
    return tuple(identifier for (identifier,) in rows)


def policy_document(task: Task[..., Any]) -> Mapping[str, Any]:
    """The row of a task. A delay that a function decides cannot be stored; Graphile's own stands in for it."""
    delays = _delays(task.running.retry) if task.running.on_crash == "retry" else {}
    return {"task_identifier": task.identifier, "on_crash": task.running.on_crash, **delays}


def must_be_marked(on_crash: OnCrash | None, default: OnCrash, last_error: str | None) -> bool:
    """Whether the start of a job that was claimed ahead must be marked: a crash would otherwise be misjudged.

    on_crash: what the task says
    default: what the worker's config says, which it also registers as `on_crash` in its metadata
    """
    return (on_crash or default) != "requeue" or last_error == RECOVERED


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
