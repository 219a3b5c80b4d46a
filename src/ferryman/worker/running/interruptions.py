"""Decides what happens to jobs that a worker interrupts at shutdown. Hooks are asked, as for jobs of dead workers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ferryman.hooks import FailureReason, JobRecovery, JobRecoveryResult
from ferryman.recovery.crashes import RECOVERED
from ferryman.worker.settling.outcomes import Interrupted

if TYPE_CHECKING:
    from ferryman.hooks import HookRegistry
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.task_numbers import TaskNumbers

logger = logging.getLogger("ferryman.worker")

HOOK_SECONDS = 3.0
"""How long `JobRecovery` hooks may take at shutdown."""


class Interruptions:
    """Decides what happens to jobs that this worker interrupts at shutdown.

    tasks: finds the identifier that a job carries
    delay: seconds until such a job may run again, unless a hook says otherwise
    """

    def __init__(self, hooks: HookRegistry, delay: float, tasks: TaskNumbers) -> None:
        self._hooks = hooks
        self._tasks = tasks
        self.usual = Interrupted(RECOVERED, delay)

    async def decide(self, claim: Claim) -> Interrupted | None:
        """The outcome to write for an interrupted job. None leaves it locked, because a hook returned `Skip`."""
        match await self._answer(claim) if self._hooks.wants(JobRecovery) else None:
            case JobRecoveryResult.Reschedule(run_at=run_at, attempts=attempts):
                return replace(self.usual, run_at=run_at, attempts=attempts)
            case JobRecoveryResult.FailWithBackoff():
                return Interrupted("ShutdownAborted", None, uses_attempt=True)
            case JobRecoveryResult.Skip():
                return None
            case _:
                return self.usual

    async def _answer(self, claim: Claim) -> JobRecoveryResult | None:
        """The answer of the hooks; None if they could not be asked, or took too long."""
        try:
            event = JobRecovery(
                job=claim.job(self._tasks.identifier_of(claim)),
                worker_id=claim.worker_id,
                previous_worker_id=claim.worker_id,
                reason=FailureReason.SHUTDOWN_ABORTED,
                started=True,
            )
            async with asyncio.timeout(HOOK_SECONDS):
                return await self._hooks.intercept(event)
        except TimeoutError:
            logger.warning(
                "the JobRecovery hooks did not answer within %g s about job %d, which the shutdown interrupted; giving "
                "the job back as if there were no hook",
                HOOK_SECONDS,
                claim.job_id,
                extra={"event": "hook_timed_out", "hook": "JobRecovery", "job_id": claim.job_id},
            )
        except Exception:
            # Perhaps its row cannot be decoded, as one with run_at '-infinity'.
            logger.exception(
                "could not ask the JobRecovery hooks about job %d, which the shutdown interrupted; giving the job back "
                "as if there were no hook",
                claim.job_id,
                extra={"event": "report_failed", "job_id": claim.job_id},
            )
        return None
