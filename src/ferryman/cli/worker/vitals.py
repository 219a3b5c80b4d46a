"""The health of a worker process and the number of its jobs, and the answers of the probes that follow from them."""

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
"""An event loop that is silent for longer counts as stuck."""

State = Literal["starting", "ready", "stopping"]


class Counts(msgspec.Struct):
    """The number of running jobs, and of attempts that succeeded or failed."""

    running: int = 0
    done: int = 0
    failed: int = 0

    def watch(self, hooks: HookRegistry) -> None:
        """Count from now on, by hooks."""
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
    """The state of one worker process, as the supervisor and the probes see it.

    seen_at: when its event loop last ticked, by this machine's uptime
    reaches_database: True if the database answered the last probe
    grace_seconds: how long its running jobs may continue after a stop signal
    recycled_because: why it ended by itself, if it did
    """

    state: State = "starting"
    counts: Counts = msgspec.field(default_factory=Counts)
    seen_at: float = msgspec.field(default_factory=time.monotonic)
    reaches_database: bool = True
    grace_seconds: float = 0.0
    recycled_because: str | None = None

    @property
    def silent_seconds(self) -> float:
        """Seconds since its event loop last ticked."""
        return time.monotonic() - self.seen_at

    def update(self, received: Vitals) -> None:
        """Copy the values that the worker process has sent, and note when they came."""
        self.state, self.counts, self.seen_at = received.state, received.counts, time.monotonic()
        self.reaches_database, self.grace_seconds = received.reaches_database, received.grace_seconds

    def mark_dead(self) -> None:
        """Note that the process has ended, so that it runs no jobs. The number of finished jobs stays."""
        self.state = "starting"
        self.counts.running = 0


class Answer(msgspec.Struct, frozen=True):
    """The answer to a probe."""

    is_good: bool
    status: str
    processes: int


def liveness(everyone: Iterable[Vitals], patience: float = LONGEST_SILENCE_SECONDS) -> Answer:
    """Answer /livez: good while every event loop ticks. A process that is still importing has none yet."""
    known = list(everyone)
    silence = max((vitals.silent_seconds for vitals in known if vitals.state != "starting"), default=0.0)
    if silence > patience:
        return Answer(False, f"an event loop has not ticked for {silence:.0f} s", len(known))
    return Answer(True, "alive", len(known))


def readiness(everyone: Iterable[Vitals], patience: float = LONGEST_SILENCE_SECONDS) -> Answer:
    """Answer /readyz: good when every process takes jobs and reaches the database."""
    known = list(everyone)
    states = [vitals.state for vitals in known]
    for state in ("stopping", "starting"):
        if state in states:
            return Answer(False, state, len(known))
    if not all(vitals.reaches_database for vitals in known):
        return Answer(False, "the database does not answer", len(known))
    alive = liveness(known, patience)
    return Answer(True, "ready", len(known)) if alive.is_good else alive
