"""What becomes of jobs that a worker interrupts in order to end. Hooks are asked, as for jobs of dead workers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ferryman.hooks import FailureReason, JobRecovery, JobRecoveryResult
from ferryman.recovery.crashes import RECOVERED
from ferryman.worker.settling.outcomes import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.hooks import HookRegistry
    from ferryman.worker.claiming.claims import Claim

logger = logging.getLogger("ferryman.worker")

HOOK_SECONDS = 3.0
"""How long hooks may think: the worker is about to end."""


class Interruptions:
    """Decides what happens to jobs that this worker interrupts at shutdown.

    name_of: the identifier that a job carries, which may be an alias of its task
    delay: seconds until such a job may run again, unless a hook says otherwise
    """

    def __init__(self, hooks: HookRegistry, delay: float, name_of: Callable[[Claim], str]) -> None:
        self._hooks = hooks
        self._name_of = name_of
        self.usual = Interrupted(RECOVERED, delay)

    async def decide(self, claim: Claim) -> Interrupted | None:
        """What is written about the job; None leaves it locked, for whoever wanted that."""
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
        """What hooks say; None if they could not be asked, or took too long."""
        try:
            event = JobRecovery(
                job=claim.job(self._name_of(claim)),
                worker_id=claim.worker_id,
                previous_worker_id=claim.worker_id,
                reason=FailureReason.SHUTDOWN_ABORTED,
                started=True,
            )
            async with asyncio.timeout(HOOK_SECONDS):
                return await self._hooks.intercept(event)
        except TimeoutError:
            logger.warning(
                "a JobRecovery hook did not answer in time; job %d goes back as usual",
                claim.job_id,
                extra={"event": "hook_timed_out", "hook": "JobRecovery", "job_id": claim.job_id},
            )
        except Exception:
            # Perhaps its row cannot be decoded, as one with run_at '-infinity'.
            logger.exception(
                "hooks could not be asked about job %d; it goes back as usual",
                claim.job_id,
                extra={"event": "report_failed", "job_id": claim.job_id},
            )
        return None
