"""Forks worker processes, kills or freezes them as planned, and notes how they end. Has one thread, so it may fork."""

from __future__ import annotations

import os
import signal
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.kill.handlers import EXIT_CODE
from benchmarks.kill.working import Apps, live

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.kill.plan import WorkerPlan
    from benchmarks.kill.recorder import Recorder

SECONDS_TO_BE_READY = 30.0


@dataclass(slots=True)
class Inmate:
    """A worker process that has not ended."""

    plan: WorkerPlan
    pid: int
    due: float
    """When its fault happens; after that, when the next thing does."""
    is_frozen: bool = False
    is_awaiting_sweep: bool = False
    is_harmed: bool = False


@dataclass(slots=True)
class Counts:
    """Counts of what was done to workers so far."""

    born: int = 0
    kills: int = 0
    exits: int = 0
    freezes: int = 0
    pauses: int = 0
    terminations: int = 0
    thawed: int = 0
    broken: int = 0

    @property
    def deaths(self) -> int:
        """The number of workers that were killed, or whose handler ended their process."""
        return self.kills + self.exits


class Nursery:
    """All worker processes of a run."""

    def __init__(self, dsn: str, folder: Path, recorder: Recorder) -> None:
        self._apps = Apps(dsn)
        self._folder = folder
        self._recorder = recorder
        self.inmates: dict[int, Inmate] = {}
        self.others: set[int] = set()
        """Child processes that are no workers and have not ended, as far as the one that forked them says so."""
        self.counts = Counts()
        self._told_ready, self._tell_ready = os.pipe()
        os.set_blocking(self._told_ready, False)

    def fork(self, plan: WorkerPlan) -> Inmate:
        """Fork a worker process."""
        pid = os.fork()
        if pid == 0:
            live(plan, self._apps, self._folder, self._tell_ready)
        due = time.monotonic() + (plan.after if plan.is_early else SECONDS_TO_BE_READY)
        inmate = self.inmates[pid] = Inmate(plan, pid, due)
        self.counts.born += 1
        return inmate

    def note_ready(self) -> None:
        """Note which workers are ready: for most, the time until their fault starts then."""
        with suppress(BlockingIOError):
            for pid in struct.iter_unpack("=q", os.read(self._told_ready, 4096)):
                inmate = self.inmates.get(*pid)
                if inmate is not None and not inmate.plan.is_early and not inmate.is_harmed:
                    inmate.due = time.monotonic() + inmate.plan.after

    def kill(self, inmate: Inmate) -> None:
        self._signal("killing", inmate, signal.SIGKILL)

    def freeze(self, inmate: Inmate) -> None:
        self._signal("freezing", inmate, signal.SIGSTOP)
        inmate.is_frozen = True

    def thaw(self, inmate: Inmate) -> None:
        self._signal("thawing", inmate, signal.SIGCONT)
        inmate.is_frozen = inmate.is_awaiting_sweep = False
        self.counts.thawed += 1

    def terminate(self, inmate: Inmate) -> None:
        self._signal("terminating", inmate, signal.SIGTERM)

    def reap(self) -> list[Inmate]:
        """Who has frozen itself since the last time. Those that have ended are gone from the inmates."""
        stopped = []
        while self.inmates:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                break
            inmate = self.inmates.get(pid)
            if inmate is None:  # a producer, or a neighbour
                if os.WIFSTOPPED(status):  # by somebody else, who lets it go on
                    continue
                self.others.discard(pid)
                self._recorder.note("producer ended", status=os.waitstatus_to_exitcode(status))
            elif os.WIFSTOPPED(status):
                if not inmate.is_frozen:
                    inmate.is_frozen = True
                    self._recorder.note("froze", of=inmate.plan.number)
                    stopped.append(inmate)
            else:
                del self.inmates[pid]
                self._count(inmate, os.waitstatus_to_exitcode(status))
        return stopped

    def end(self) -> None:
        """Kill every worker that is left."""
        for inmate in [*self.inmates.values()]:
            os.kill(inmate.pid, signal.SIGKILL)
        while self.inmates:
            pid, _ = os.waitpid(-1, 0)
            self.inmates.pop(pid, None)

    def _count(self, inmate: Inmate, code: int) -> None:
        self._recorder.note("died", of=inmate.plan.number, code=code)
        if code == -signal.SIGKILL:
            self.counts.kills += 1
        elif code == EXIT_CODE:
            self.counts.exits += 1
        elif code == 0:
            self.counts.terminations += 1
        else:
            self.counts.broken += 1

    def _signal(self, event: str, inmate: Inmate, number: signal.Signals) -> None:
        # Before: what it does until the signal takes effect is then told a little too early, never too late.
        self._recorder.note(event, of=inmate.plan.number)
        os.kill(inmate.pid, number)
