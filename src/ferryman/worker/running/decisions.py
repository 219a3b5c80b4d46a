"""Decides what the end of a handler means for its job: in a worker, or in the child process that ran the handler."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ferryman.handler_exceptions import Fail, Retry, Snooze
from ferryman.retries import checked_delay
from ferryman.worker.running.batch_results import batch_outcome
from ferryman.worker.settling.outcomes import Failed, Snoozed, describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman.tasks import Task
    from ferryman.worker.settling.outcomes import Ending

logger = logging.getLogger("ferryman.worker")


def decided_by(error: BaseException, task: Task[..., Any], attempts: int) -> Snoozed | Failed | None:
    """The ending that a handler asked for by raising `Snooze`, `Fail` or `Retry`; None if it raised anything else."""
    match error := _decision_in(error):
        case Snooze():
            return Snoozed(max(0.0, error.delay.total_seconds()))
        case Fail():
            return Failed(describe(error), is_final=True)
        case Retry():
            after = retry_seconds(task, attempts, error) if error.after is None else error.after.total_seconds()
            return Failed(
                describe(error), delay=None if after is None else max(0.0, after), payload_json=error.payload_json
            )
    return None


def batch_ending(task: Task[..., Any], attempts: int, payload_json: str, result: Any, seconds: float) -> Ending:
    """The ending that a batch handler's result means, with the delay of the task's retry policy."""
    outcome = batch_outcome(payload_json, result, seconds)
    if isinstance(outcome, Failed):
        return replace(outcome, delay=retry_seconds(task, attempts, RuntimeError(outcome.error)))
    return outcome


def retry_seconds(task: Task[..., Any], attempts: int, error: BaseException) -> float | None:
    """The delay that the task's retry policy wants after this error; None for Graphile's own, or if the policy fails.

    attempts: how many attempts the job has had, this one included
    """
    try:
        delay = checked_delay(task.running.retry.delay(attempts, error))
    except Exception:
        logger.exception(
            "the retry policy of task %r raised an error; its job waits for Graphile Worker's own delay instead",
            task.identifier,
            extra={"event": "retry_policy_failed", "task": task.identifier},
        )
        return None
    return None if delay is None else max(0.0, delay.total_seconds())


def _decision_in(error: BaseException) -> BaseException:
    """The decision that a `TaskGroup` has wrapped, if there is just one; otherwise the error itself.

    A `Snooze` says that nothing failed, so it does not count beside other errors.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    errors = [*_leaves(error)]
    decisions = [each for each in errors if isinstance(each, (Fail, Retry, Snooze))]
    if len(decisions) != 1 or (isinstance(decisions[0], Snooze) and len(errors) > 1):
        return error
    return decisions[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
