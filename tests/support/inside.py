"""The parts of a running worker: the only place that knows where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferryman import Worker
    from ferryman.database.pools import AsyncPool
    from ferryman.worker.claiming.claimer import Claimer
    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.claiming.local_queue import LocalQueue
    from ferryman.worker.claiming.lost_replies import LostReplies
    from ferryman.worker.claiming.renewal import LockRenewal
    from ferryman.worker.claiming.waiting_list import WaitingList
    from ferryman.worker.identity import Identity
    from ferryman.worker.life import Life


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
        return self._life._claimer

    def looks_near_again(self) -> None:
        """Let it look for jobs in the cheapest way, as it does some time after it had to look further."""
        self._life._claimer._planner._until = 0.0

    @property
    def identity(self) -> Identity:
        """The name under which it claims."""
        return self._worker._identity

    @property
    def pool(self) -> AsyncPool:
        """Its connections."""
        return self._life._client.pool

    @property
    def lost_claims(self) -> LostReplies:
        """What looks for claims whose replies were lost."""
        return self._life._claimer._lost

    @property
    def local_queue(self) -> LocalQueue:
        assert self._life._local_queue is not None, "the worker has no local queue"
        return self._life._local_queue

    @property
    def waiting_list(self) -> WaitingList:
        """What tells sweepers which jobs have not started."""
        assert self._life._waiting_list is not None, "the worker does not claim ahead, or does not register"
        return self._life._waiting_list

    @property
    def long_jobs(self) -> LockRenewal:
        """What looks for old locks."""
        return self._life._renewal

    @property
    def leases(self) -> list[Claim]:
        """The claims whose handlers may ask for their lease."""
        return [*self._life._slots._attempts._leases]

    @property
    def progress(self) -> list[Claim]:
        """The claims whose progress is known, or was."""
        progress = self._life._progress
        return [*progress._told, *progress._written, *progress._ended]

    @property
    def running(self) -> list[Claim]:
        """The claims of the jobs that run."""
        return self._life._slots.claims

    @property
    def held_up(self) -> int:
        """How many outcomes wait for others to let go of their rows."""
        return sum(len(buffer._held_up) for buffer in self._life._settler._buffers)

    @property
    def is_listening(self) -> bool:
        """Whether it hears of new jobs."""
        return self.is_alive and self._life._listener is not None and self._life._listener.is_listening

    @property
    def is_fenced(self) -> bool:
        """Whether others may take it for dead."""
        return self._life._is_fenced()

    def suspend(self, seconds: float) -> None:
        """Let the clock of its lease go on by so much, as if the machine had been suspended for as long."""
        assert self._life._recovery is not None, "the worker does not recover"
        beats = self._life._recovery._beats
        clock = beats.clock
        beats.clock = lambda: clock() + seconds

    @property
    def is_held_back(self) -> bool:
        """Whether it may claim nothing for now."""
        return self._life._is_held_back()

    @property
    def _life(self) -> Life:
        assert self._worker._life is not None, "the worker does not run"
        return self._worker._life


def inside(worker: Worker) -> Inside:
    """Its parts."""
    return Inside(worker)
