"""The parts of a running worker: the only place that knows where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.worker.claiming.local_queue import LocalQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman import Worker
    from ferryman.database.pools import AsyncPool
    from ferryman.worker.claiming.claimer import Claimer
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.lost_replies import LostReplies
    from ferryman.worker.claiming.renewal import LockRenewal
    from ferryman.worker.claiming.waiting_list import WaitingList
    from ferryman.worker.identity import Identity
    from ferryman.worker.parts import Parts
    from ferryman.worker.running.slots import Slots


class Inside:
    """What a worker consists of. Most of it is there only while it runs."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def is_alive(self) -> bool:
        """Whether it has all its parts."""
        return self._worker._life is not None

    @property
    def can_stop(self) -> bool:
        """Whether it would hear that it is to stop."""
        return self._worker._stopping is not None

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._worker._stopping is not None and self._worker._stopping.begun.is_set()

    @property
    def claimer(self) -> Claimer:
        return self._parts.claimer

    @property
    def task_numbers(self) -> list[int]:
        """The numbers that its tasks have now."""
        return [*self._parts.tasks.ids]

    def looks_near_again(self) -> None:
        """Let it look for jobs in the cheapest way, as it does some time after it had to look further."""
        self._parts.claimer._planner._until = 0.0

    @property
    def identity(self) -> Identity:
        """The name under which it claims."""
        return self._worker._identity

    @property
    def pool(self) -> AsyncPool:
        """Its connections."""
        return self._parts._client.pool

    @property
    def lost_replies(self) -> LostReplies:
        """What looks for claims whose replies were lost."""
        return self._parts.lost

    @property
    def local_queue(self) -> LocalQueue:
        assert isinstance(self._parts.source, LocalQueue), "the worker has no local queue"
        return self._parts.source

    @property
    def waiting_list(self) -> WaitingList:
        """What tells sweepers which jobs have not started."""
        assert self._parts.waiting_list is not None, "the worker does not claim ahead, or does not register"
        return self._parts.waiting_list

    @property
    def renewal(self) -> LockRenewal:
        """What looks for old locks."""
        return self._parts.renewal

    @property
    def slots(self) -> Slots:
        """The jobs that run."""
        return self._parts.slots

    @property
    def leases(self) -> list[Claim]:
        """The claims whose handlers may ask for their lease."""
        return [*self._parts.slots._attempts._leases]

    @property
    def progress(self) -> list[Claim]:
        """The claims whose progress is known, or was."""
        progress = self._parts.progress
        return [*progress._told, *progress._written, *progress._ended]

    @property
    def running(self) -> list[Claim]:
        """The claims of the jobs that run."""
        return self._parts.slots.held_claims

    @property
    def held(self) -> list[Claim]:
        """Every claim that it holds."""
        return [*self._parts.held]

    @property
    def blocked(self) -> int:
        """How many outcomes wait for others to let go of their rows."""
        return sum(len(buffer._blocked) for buffer in self._parts.settler._buffers)

    @property
    def is_listening(self) -> bool:
        """Whether it hears of new jobs."""
        return self.is_alive and self._parts.listener is not None and self._parts.listener.is_listening

    @property
    def may_be_dead(self) -> bool:
        """Whether others may take it for dead."""
        return self._parts.guard.may_be_dead

    def suspend(self, seconds: float) -> None:
        """Let the clock of its safety window go on by so much, as if the machine had been suspended for as long."""
        assert self._parts.recovery is not None, "the worker does not recover"
        for part in (self._parts.guard, self._parts.recovery._beats):
            part.clock = _ahead(part.clock, seconds)

    @property
    def is_claiming_paused(self) -> bool:
        """Whether it may claim nothing for now."""
        return self._parts.source._parts.is_claiming_paused

    @property
    def _parts(self) -> Parts:
        assert self._worker._life is not None, "the worker does not run"
        return self._worker._life.parts


def _ahead(clock: Callable[[], float], seconds: float) -> Callable[[], float]:
    return lambda: clock() + seconds


def inside(worker: Worker) -> Inside:
    """Its parts."""
    return Inside(worker)
