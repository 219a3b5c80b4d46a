"""The sources of a worker's jobs: the interface of every source, and the parts that it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ferryman.worker.settling.outcomes import Completed

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ferryman.worker.claiming.claims import Claim, Claimed
    from ferryman.worker.running.slots import Slots
    from ferryman.worker.settling.backlog import Backlog
    from ferryman.worker.settling.buffers import Lender
    from ferryman.worker.settling.outcomes import Settlement
    from ferryman.worker.settling.settler import Settler
    from ferryman.worker.start_guard import StartGuard
    from ferryman.worker.stopping import Stopping


class JobSource(Protocol):
    """A source of a worker's jobs. Every method runs on the event loop's thread, and only `run` may wait."""

    async def run(self) -> None:
        """Claim jobs and have them run until the worker stops. On return, slots or settler have all claims."""
        ...

    def wake(self) -> None:
        """Look for jobs soon: there may be new ones."""
        ...

    def take(self) -> Claim | None:
        """The next job for a slot that is free, if one waits here. Called between two jobs: it must take no time."""
        ...

    def slot_freed(self) -> None:
        """Take note that a job has ended. Called between two jobs, too."""
        ...

    @property
    def held_claims(self) -> Collection[Claim]:
        """The claims that wait here."""
        ...

    def give_back(self) -> None:
        """Give back all claims that wait here: other workers may have them already, or they must make room."""
        ...

    def settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        """Take note of what was settled; look for jobs if that may have freed some."""
        ...


class JobClaimer(Protocol):
    """The claimer of a source."""

    async def claim(self, wanted: int, lender: Lender | None = None, *, is_announced: bool = False) -> Claimed:
        """Claim at most `wanted` jobs."""
        ...

    @property
    def flags_can_change(self) -> bool:
        """True if a job that is skipped now may be allowed later, without a notification."""
        ...

    @property
    def is_paused(self) -> bool:
        """True if nothing may be claimed for now."""
        ...


@dataclass(frozen=True, slots=True)
class SourceParts:
    """The parts that every source is given."""

    claimer: JobClaimer
    slots: Slots
    settler: Settler
    stop: Stopping
    guard: StartGuard
    backlog: Backlog

    @property
    def is_claiming_paused(self) -> bool:
        """True if nothing may be claimed for now. No event says when that is over."""
        return self.claimer.is_paused or self.guard.may_be_dead or self.backlog.is_too_long


def frees_work(written: Sequence[Settlement], refused: Sequence[Settlement]) -> bool:
    """True if these settlements may free a job that is not announced: the next of a queue, or the same job again."""
    for settlements in (written, refused):
        for each in settlements:
            if each.claim.queue_id is not None or not isinstance(each.outcome, Completed):
                return True
    return False
