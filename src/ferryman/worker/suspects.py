"""Keeps jobs that have crashed before apart, so that a job fails only for crashes that are its own.

A job that was running when a worker died is a suspect. A worker holds at most one suspect at a time: of those that a
claim brings, it keeps the first and gives the others back, and it claims no others until that one is settled. A suspect
on its last chance runs alone: everything else that is claimed and has not started goes back, nothing is claimed, and it
starts when all that runs has ended. `ferryman.recovery.crashes` has the other half of the rule.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ferryman.recovery.crashes import ALONE_FLAG, SUSPECT_FLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.worker.claims import Claim
    from ferryman.worker.outcomes import Settlement

logger = logging.getLogger("ferryman.worker")

SECONDS_TO_MAKE_ROOM = 60.0
"""How long a job that must run alone holds its worker back while others end. Some jobs never end."""
SECONDS_UNTIL_NEXT_ROOM = 300.0
"""When such a job may be claimed again, and the worker claims another, if it could not run."""
SECONDS_BETWEEN_LOOKS = 0.02


class Suspects:
    """Knows the suspect that this worker holds.

    is_held: True while a claim runs, waits to run, or waits to be settled
    is_alone: True if the worker runs nothing beside one job
    give_back_waiting: gives back what waits in a local queue
    give_back: gives back a claim that has not started
    is_stopping: True if the worker starts nothing any more
    """

    def __init__(
        self,
        *,
        is_held: Callable[[Claim], bool],
        is_alone: Callable[[], bool],
        give_back_waiting: Callable[[], None],
        give_back: Callable[[Claim], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._is_held = is_held
        self._is_alone = is_alone
        self._give_back_waiting = give_back_waiting
        self._give_back = give_back
        self._is_stopping = is_stopping
        self._held: Claim | None = None
        self._next_room = 0.0

    @property
    def wants_room(self) -> bool:
        """True while a job runs alone or waits for that: nothing may be claimed."""
        held = self._held
        return held is not None and held.runs_alone and self._is_held(held)

    def forbidden_flags(self) -> tuple[str, ...]:
        """Jobs with these must not be claimed now. For one that is about to claim."""
        if self._held is not None and not self._is_held(self._held):
            self._held = None
        if self._held is not None:
            return (SUSPECT_FLAG,)
        # One after the other would hold up all other jobs for as long as something here never ends.
        return (ALONE_FLAG,) if time.monotonic() < self._next_room else ()

    def is_any_of(self, settlements: Sequence[Settlement]) -> bool:
        """True if the suspect that this worker holds is among these."""
        return self._held is not None and any(each.claim is self._held for each in settlements)

    def admit(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Those that may go on; the others are given back. For the claims of one statement, in their order."""
        suspects = [claim for claim in claims if claim.crash_flags and claim.is_suspect]
        if not suspects:
            return claims
        first = suspects[0]
        if self._held is not None:
            kept = [claim for claim in claims if not claim.is_suspect]
        elif first.runs_alone:
            kept = [first]
            self._give_back_waiting()
        else:
            kept = [claim for claim in claims if claim is first or not claim.is_suspect]
        if first in kept:
            self._held = first
        admitted = {*kept}
        for claim in claims:
            if claim not in admitted:
                self._give_back(claim)
        return kept

    async def make_room(self, claim: Claim) -> bool:
        """Wait until the job runs alone; False if it must go back: that takes too long, or the worker stops."""
        end = time.monotonic() + SECONDS_TO_MAKE_ROOM
        while not self._is_alone():
            if self._is_stopping():
                return False
            if time.monotonic() > end:
                self._next_room = time.monotonic() + SECONDS_UNTIL_NEXT_ROOM
                logger.warning(
                    "job %d has crashed before and must run alone, but other jobs ran for longer than %g s; "
                    "it goes back for %g s",
                    claim.job_id,
                    SECONDS_TO_MAKE_ROOM,
                    SECONDS_UNTIL_NEXT_ROOM,
                    extra={"event": "no_room_for_suspect", "job_id": claim.job_id},
                )
                return False
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        return True
