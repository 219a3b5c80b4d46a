"""What is known about the health of a worker process, and how much it has done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import msgspec

from ferryman.hooks import (
    AfterJobRun,
    FailureReason,
    JobComplete,
    JobFail,
    JobInterrupted,
    JobPermanentlyFail,
    JobStart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferryman.hooks import HookRegistry

PULSE_SECONDS = 0.5
LONGEST_SILENCE_SECONDS = 30.0
"""An event loop that is silent for longer is taken for stuck."""

State = Literal["starting", "ready", "stopping"]


class Counts(msgspec.Struct):
    """How many jobs run, and how many attempts ended well or badly."""

    running: int = 0
    done: int = 0
    failed: int = 0

    def watch(self, hooks: HookRegistry) -> None:
        """Count from now on."""
        hooks.on(JobStart, lambda _: self._add(running=1))
        hooks.on(AfterJobRun, lambda _: self._add(running=-1))
        hooks.on(JobInterrupted, self._interrupted)
        hooks.on(JobComplete, lambda _: self._add(done=1))
        hooks.on(JobFail, lambda _: self._add(failed=1))
        hooks.on(JobPermanentlyFail, lambda _: self._add(failed=1))

    def _interrupted(self, event: JobInterrupted) -> None:
        if event.reason is not FailureReason.WORKER_CRASHED:  # that job ran in a dead worker, whose jobs are recovered
            self._add(running=-1)

    def _add(self, *, running: int = 0, done: int = 0, failed: int = 0) -> None:
        self.running += running
        self.done += done
        self.failed += failed


class Vitals(msgspec.Struct):
    """One process.

    seen_at: when its event loop last showed life, by this machine's uptime
    reaches_database: whether the database answered when it was last asked
    recycled_because: why it ended by itself, if it did
    grace_seconds: how long its running jobs may go on after a signal to stop
    """

    state: State = "starting"
    counts: Counts = msgspec.field(default_factory=Counts)
    seen_at: float = msgspec.field(default_factory=time.monotonic)
    reaches_database: bool = True
    grace_seconds: float = 0.0
    recycled_because: str | None = None

    @property
    def silent_seconds(self) -> float:
        """How long nothing was heard of its event loop."""
        return time.monotonic() - self.seen_at

    def hear(self, heard: Vitals) -> None:
        """Take over what the process itself says."""
        self.state, self.counts, self.seen_at = heard.state, heard.counts, time.monotonic()
        self.reaches_database, self.grace_seconds = heard.reaches_database, heard.grace_seconds

    def die(self) -> None:
        """Note that the process is gone, and nothing runs in it; what it has done stays done."""
        self.state = "starting"
        self.counts.running = 0


class Answer(msgspec.Struct, frozen=True):
    """What a probe is told."""

    is_good: bool
    status: str
    processes: int


def liveness(everyone: Iterable[Vitals], patience: float = LONGEST_SILENCE_SECONDS) -> Answer:
    """Good while every event loop ticks. A process that is starting has none yet: imports take their time."""
    known = list(everyone)
    silence = max((vitals.silent_seconds for vitals in known if vitals.state != "starting"), default=0.0)
    if silence > patience:
        return Answer(False, f"an event loop has not ticked for {silence:.0f} s", len(known))
    return Answer(True, "alive", len(known))


def readiness(everyone: Iterable[Vitals], patience: float = LONGEST_SILENCE_SECONDS) -> Answer:
    """Good when every process takes jobs, and reaches the database."""
    known = list(everyone)
    states = [vitals.state for vitals in known]
    for state in ("stopping", "starting"):
        if state in states:
            return Answer(False, state, len(known))
    if not all(vitals.reaches_database for vitals in known):
        return Answer(False, "the database does not answer", len(known))
    alive = liveness(known, patience)
    return Answer(True, "ready", len(known)) if alive.is_good else alive
