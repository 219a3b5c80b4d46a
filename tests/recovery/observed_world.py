"""A model of workers, a database and one observer, in which time passes as fast as one likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ferryman.database.identifiers import SchemaName
from ferryman.recovery.rhythm import Rhythm
from ferryman.recovery.watch_role import WatchRole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.recovery.observer import Dead

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
STEP = 0.25
ROUND_TRIP = 0.01
LONGEST_RETURN = 6.0
"""How long a live worker may take to come back after an outage."""
RHYTHM = Rhythm(beat=30.0, sweep=60.0, silent_after=120.0, grace=10.0)


@dataclass
class ModelWorker:
    """`return_delay`: how long it takes to reconnect. A dead one has no session; a hung one keeps its own."""

    name: str
    return_delay: float = 0.0
    beat: datetime = EPOCH
    next_beat: float = 0.0
    has_session: bool = True
    returns_at: float | None = None
    is_dead: bool = False
    is_hung: bool = False

    def die(self) -> None:
        self.is_dead, self.has_session = True, False

    def live(self, now: float, clock: datetime) -> None:
        """Its action at this moment, if the database is there."""
        if self.is_dead or self.is_hung:
            return
        if not self.has_session:
            if self.returns_at is None:
                self.returns_at = now + self.return_delay
            if now < self.returns_at:
                return
            self.has_session, self.returns_at, self.next_beat = True, None, now
        if now >= self.next_beat:
            self.beat, self.next_beat = clock, now + RHYTHM.beat


@dataclass
class World:
    """One observer among workers."""

    workers: Sequence[ModelWorker]
    rhythm: Rhythm = RHYTHM
    round_trip: float = ROUND_TRIP
    step: float = STEP
    now: float = 1000.0
    clock_offset: float = 0.0
    is_up: bool = True
    is_stopped: bool = False
    is_stalled: bool = False
    reported: dict[str, list[tuple[float, Dead]]] = field(default_factory=dict)
    looks: int = 0

    def __post_init__(self) -> None:
        self.watch = WatchRole(SchemaName("graphile_worker"), self.rhythm)
        self._next_look = self.now
        self._is_connected = True
        self._question: tuple[float, Any] | None = None
        """When it was sent, and what it asks."""

    @property
    def clock(self) -> datetime:
        """The clock of the database."""
        return EPOCH + timedelta(seconds=self.now + self.clock_offset)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            if self.is_up and not self.is_stalled:
                for worker in self.workers:
                    worker.live(self.now, self.clock)
            if not self.is_stopped and self._question is None and self.now >= self._next_look:
                self._look()
            if not self.is_stopped and self._question is not None and not self.is_stalled:
                self._hear(*self._question)
            self.now += self.step

    def outage(self, seconds: float) -> None:
        """The database goes away, with all sessions, and comes back. Then everybody has the time to return."""
        self.is_up = self._is_connected = False
        self._question = None
        for worker in self.workers:
            worker.has_session, worker.returns_at = False, None
        self.pass_time(seconds)
        self.is_up = True
        self.pass_time(LONGEST_RETURN)

    def stall(self, seconds: float) -> None:
        """The database answers no worker for a while, and forgets nothing."""
        self.is_stalled = True
        self.pass_time(seconds)
        self.is_stalled = False

    def stop_observer(self, seconds: float) -> None:
        self.is_stopped = True
        self.pass_time(seconds)
        self.is_stopped = False

    def reports_of(self, name: str) -> list[tuple[float, Dead]]:
        return self.reported.get(name, [])

    def _look(self) -> None:
        if not self._is_connected:
            self.watch.interrupt()
            self._is_connected = self.is_up
            self._next_look = self.now + self.rhythm.tick
            return
        session: Any = SimpleNamespace(key=1)
        self._question = (self.now, self.watch.question("me", self.now, is_due=False, session=session).parameters)

    def _hear(self, sent: float, asked: Any) -> None:
        """Take the answer, if it is there by the next step."""
        received = max(sent + self.round_trip, self.now)
        if received >= self.now + self.step:
            return
        rows = self._answer(asked)
        self.looks += 1
        self._question = None
        for dead in self.watch.answered(rows, sent=sent, received=received):
            self.reported.setdefault(dead.worker_id, []).append((self.now, dead))
        self._next_look = received + self.watch.pause

    def _answer(self, asked: Any) -> list[tuple[Any, ...]]:
        is_ours = asked["watch_step"] in {"keep", "try"}
        if "old_after" not in asked:
            return [(True, is_ours, False)]
        oldest = self.clock - timedelta(seconds=asked["old_after"])
        signs = [
            (worker.name, worker.beat, asked["is_watching"] and not worker.has_session, is_old)
            for worker in self.workers
            if (is_old := asked["is_full"] and not oldest <= worker.beat <= self.clock)
            or (asked["is_watching"] and not worker.has_session)
        ]
        return [(True, is_ours, *sign, False) for sign in signs or [(None, None, None, None)]]
