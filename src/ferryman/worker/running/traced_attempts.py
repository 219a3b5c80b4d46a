"""Attempts that a tracing library watches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ferryman.worker.settling.outcomes import Completed, CompletedByHandler, Failed, Interrupted, Snoozed, Unstarted

if TYPE_CHECKING:
    from ferryman.tasks import Task
    from ferryman.traces import Processing, Tracing
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.identity import Identity
    from ferryman.worker.running.attempt import Attempt, Cancelling
    from ferryman.worker.settling.outcomes import Outcome

logger = logging.getLogger("ferryman.worker")

_WORDS: dict[type[object], str] = {
    Completed: "completed",
    CompletedByHandler: "completed",
    Snoozed: "snoozed",
    Interrupted: "interrupted",
    Unstarted: "not started",
}
LOST = "LeaseLostError: this worker was declared dead and lost the job; its outcome was discarded"


class TracedAttempts:
    """Wraps attempts, so that each is watched from before its hooks until its outcome is known.

    identity: the worker's id; claims made under an earlier id are lost
    """

    def __init__(self, tracing: Tracing, identity: Identity) -> None:
        self._tracing = tracing
        self._identity = identity
        self._has_complained = False

    def of(self, task: Task[..., Any], attempt: Attempt) -> Attempt:
        """Wrap the attempt in a span. The job runs even if tracing fails."""
        begin = self._tracing.processing(task.identifier)

        async def make(claim: Claim, cancelling: Cancelling) -> Outcome:
            try:
                watched = begin(claim)
            except Exception as error:  # noqa: BLE001 - of a tracing library, or of a row that cannot be read
                self._complain(error)
                return await attempt(claim, cancelling)
            try:
                outcome = await attempt(claim, cancelling)
            except GeneratorExit:  # this is closed in another context than it began in
                raise
            except BaseException:
                self._end(watched, "interrupted", None)
                raise
            self._end(watched, *self._told(claim, outcome))
            return outcome

        return make

    def _told(self, claim: Claim, outcome: Outcome) -> tuple[str, str | None]:
        if claim.worker_id != self._identity.id:
            return "lost", LOST
        if not isinstance(outcome, Failed):
            return _WORDS[type(outcome)], None
        is_final = outcome.is_final or claim.attempts >= claim.max_attempts
        return "failed" if is_final else "retrying", outcome.error

    def _end(self, watched: Processing, word: str, error: str | None) -> None:
        try:
            watched.end(word, error)
        except Exception as problem:  # noqa: BLE001 - of a tracing library
            self._complain(problem)

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:
            self._has_complained = True
            logger.warning(
                "the tracing library raised an error; jobs run all the same, but spans of them may be missing; later "
                "errors of this kind are not logged: %r",
                error,
                exc_info=error,
                extra={"event": "tracing_failed"},
            )
