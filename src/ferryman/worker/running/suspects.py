"""Keeps jobs that have crashed before apart, so that a job fails only for crashes that are its own.

A job that was running when a worker died is a suspect. A worker holds suspects in a quarter of its slots at most: of
those that a claim brings, it keeps the first ones and gives the others back, and it claims no others until one of them
is settled. A suspect on its last chance runs alone: everything else that is claimed and has not started goes back,
nothing is claimed, and it starts when all that runs has ended. `ferryman.recovery.crashes` has the other half of the
rule.

Most suspects are innocent: something else killed their worker, and they should run again soon. A guilty one may kill
again, and all suspects beside it must then run alone. The quarter is between the two.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ferryman.recovery.crashes import ALONE_FLAG, SUSPECT_FLAG
from ferryman.worker.settling.outcomes import Unstarted
from ferryman.worker.source import frees_work

if TYPE_CHECKING:
    from collections.abc import Sequence, Sized

    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.held_claims import HeldClaims
    from ferryman.worker.settling.outcomes import Settlement
    from ferryman.worker.settling.settler import Settler
    from ferryman.worker.source import JobSource
    from ferryman.worker.stopping import Stopping

logger = logging.getLogger("ferryman.worker")

SECONDS_TO_MAKE_ROOM = 60.0
"""How long a job that must run alone holds its worker back while others end. Some jobs never end."""
SECONDS_UNTIL_NEXT_ROOM = 300.0
"""When such a job may be claimed again, and the worker claims another, if it could not run."""
SECONDS_BETWEEN_LOOKS = 0.02
SLOTS_PER_SUSPECT = 4
"""A worker holds one suspect for this many slots, and one at least."""


class Suspects:
    """Tracks the suspects that this worker has claimed: jobs that were running when a worker died.

    concurrency: how many jobs the worker runs at once
    held: all claims of the worker
    """

    def __init__(self, *, concurrency: int, held: HeldClaims, settler: Settler, stop: Stopping) -> None:
        self._most = max(1, concurrency // SLOTS_PER_SUSPECT)
        self._all_held = held
        self._settler = settler
        self._stop = stop
        self._slots: Sized = ()
        self._source: JobSource | None = None
        self._held: list[Claim] = []
        self._held_since = 0.0
        self._next_room = 0.0

    def watch(self, slots: Sized, source: JobSource) -> None:
        """Set the slots that empty before a job runs alone, and the source to wake when a suspect was settled."""
        self._slots, self._source = slots, source

    @property
    def wants_room(self) -> bool:
        """True while a job runs alone or waits for that: nothing may be claimed."""
        return any(claim.runs_alone and self._is_held(claim) for claim in self._held)

    def forbidden_flags(self) -> tuple[str, ...]:
        """The flags of jobs that must not be claimed now. Call it just before a claim."""
        self._held = [claim for claim in self._held if self._is_held(claim)]
        now = time.monotonic()
        if not self._held:
            self._held_since = now
            # If a job here never ends, jobs that must run alone would hold up all others, one after the other.
            return (ALONE_FLAG,) if now < self._next_room else ()
        # A job that must run alone waits until no suspect is held. Every other minute no suspect is claimed, so those
        # held can run out. In the other minutes ordinary suspects may join, if one of the held never ends.
        is_others_turn = (now - self._held_since) // SECONDS_TO_MAKE_ROOM % 2
        if len(self._held) >= self._most or self.wants_room or is_others_turn:
            return (SUSPECT_FLAG,)
        return (ALONE_FLAG,)

    def settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """Let the source look for the next suspect when one is settled, unless it looks anyway."""
        if not self._held or self._source is None:
            return
        if any(each.claim in self._held for each in (*written, *refused)) and not frees_work(written, refused):
            self._source.wake()

    def admit(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """The claims that may run; the others are given back. Takes the claims of one statement, in their order."""
        suspects = [claim for claim in claims if claim.crash_flags and claim.is_suspect]
        if not suspects:
            return claims
        first = suspects[0]
        if first.runs_alone and not self._held:
            admitted = {first}
            self._held = [first]
            self._give_back_waiting()
        else:
            room = 0 if self.wants_room else self._most - len(self._held)
            new = [claim for claim in suspects if not claim.runs_alone][:room]
            admitted = {*claims}.difference(suspects).union(new)
            self._held += new
        for claim in claims:
            if claim not in admitted:
                self._settler.settle(claim, Unstarted())
        return [claim for claim in claims if claim in admitted]

    async def make_room(self, claim: Claim) -> bool:
        """Wait until the job would run alone. False if that takes too long, or the worker shuts down."""
        end = time.monotonic() + SECONDS_TO_MAKE_ROOM
        while len(self._slots) > 1:
            if self._stop.begun.is_set():
                return False
            if time.monotonic() > end:
                self._next_room = time.monotonic() + SECONDS_UNTIL_NEXT_ROOM
                logger.warning(
                    "job %d was running when workers died, so it must run alone, but other jobs of this worker did not "
                    "end within %g s; giving it back, to wait %g s for its next chance",
                    claim.job_id,
                    SECONDS_TO_MAKE_ROOM,
                    SECONDS_UNTIL_NEXT_ROOM,
                    extra={"event": "no_room_for_suspect", "job_id": claim.job_id},
                )
                return False
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        return True

    def _is_held(self, claim: Claim) -> bool:
        """True while the claim runs, waits to run, or waits to be settled."""
        return claim in self._all_held and claim not in self._settler.left_locked

    def _give_back_waiting(self) -> None:
        if self._source is not None:
            self._source.give_back()
