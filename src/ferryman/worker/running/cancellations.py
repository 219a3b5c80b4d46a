"""Remembers which jobs the worker itself has cancelled.

`asyncio.Task.cancelling()` does not show that: libraries cancel the task that calls them, for their own time limits,
and some never take that back.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.stopping import Stopping


class Cancellations:
    """The jobs that the worker has cancelled and whose handlers have not returned yet."""

    def __init__(self, stop: Stopping) -> None:
        self._stop = stop
        self.claims: set[Claim] = set()

    def cancel(self, claim: Claim, task: asyncio.Task[None]) -> None:
        """Cancel the asyncio task that runs a job."""
        self.claims.add(claim)
        task.cancel()

    def forget(self, claim: Claim) -> None:
        """Note that the job has left its slot."""
        self.claims.discard(claim)

    async def was_cancelled(self, claim: Claim) -> bool:
        """True if the worker has cancelled the job that the running asyncio task works on, or was cancelled itself.

        Any other cancellation is a leftover of the handler: it ends here, so that nothing after the handler meets it.
        """
        task = asyncio.current_task()
        if claim in self.claims or task is None or self._is_ended_from_outside(task):
            return True
        if task.cancelling():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # one that is still on its way arrives here
            while task.uncancel():
                pass
        return claim in self.claims

    def _is_ended_from_outside(self, task: asyncio.Task[object]) -> bool:
        """True if the loop cancels all tasks because the program ends: the worker's own task is among them."""
        return task.cancelling() > 0 and self._stop.was_cancelled
