"""What is known about the health of a worker process, and how much it has done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import msgspec

from ferryman.hooks import AfterJobRun, JobComplete, JobFail, JobInterrupted, JobPermanentlyFail, JobStart

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
        hooks.on(JobInterrupted, lambda _: self._add(running=-1))
        hooks.on(JobComplete, lambda _: self._add(done=1))
        hooks.on(JobFail, lambda _: self._add(failed=1))
        hooks.on(JobPermanentlyFail, lambda _: self._add(failed=1))

    def _add(self, *, running: int = 0, done: int = 0, failed: int = 0) -> None:
        self.running += running
        self.done += done
        self.failed += failed


class Vitals(msgspec.Struct):
    """One process: its state, its counts, and when its event loop last showed life (by this machine's uptime)."""

    state: State = "starting"
    counts: Counts = msgspec.field(default_factory=Counts)
    seen_at: float = msgspec.field(default_factory=time.monotonic)

    @property
    def silent_seconds(self) -> float:
        """How long nothing was heard of its event loop."""
        return time.monotonic() - self.seen_at


class Answer(msgspec.Struct, frozen=True):
    """What a probe is told."""

    is_good: bool
    status: str
    processes: int


def liveness(everyone: Iterable[Vitals]) -> Answer:
    """Good while every event loop ticks. A process that is starting has none yet: imports take their time."""
    known = list(everyone)
    silence = max((vitals.silent_seconds for vitals in known if vitals.state != "starting"), default=0.0)
    if silence > LONGEST_SILENCE_SECONDS:
        return Answer(False, f"an event loop has not ticked for {silence:.0f} s", len(known))
    return Answer(True, "alive", len(known))


def readiness(everyone: Iterable[Vitals]) -> Answer:
    """Good when every process is connected and takes jobs."""
    states = [vitals.state for vitals in everyone]
    for state in ("stopping", "starting"):
        if state in states:
            return Answer(False, state, len(states))
    return Answer(True, "ready", len(states))
