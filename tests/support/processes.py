"""Processes: programs that a test starts, and any others, looked at from the outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.rhythms import CROWD, OFF
from tests.support.waiting import until, until_blocking
from tests.support.warm import ROOT, Order, WarmProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferryman.recovery.rhythm import Rhythm
    from tests.support.history import History


class Program:
    """A module of Python that runs as a process of its own.

    environment: what it finds there besides the test's own
    folder: where it runs, and finds modules of its own
    talks: it hears the lines of `tell`, and its output is gathered in `lines`
    fresh: in a new interpreter, for tests of the start or the end of one, or of limits; the others are quicker warm
    popen: how to start a fresh one, for `subprocess.Popen`
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        folder: Path = ROOT,
        talks: bool = False,
        fresh: bool = False,
        popen: Mapping[str, Any] | None = None,
    ) -> None:
        variables = {**os.environ, **(environment or {})}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if talks else {}
        self._process: subprocess.Popen[str] | WarmProcess
        if fresh or popen:
            command = [sys.executable, "-m", module, *arguments]
            self._process = subprocess.Popen(
                command, **{"cwd": folder, "env": variables, "text": True, **pipes, **(popen or {})}
            )
        else:
            self._process = WarmProcess(Order(module, [*arguments], variables, str(folder)), **pipes)
        self._listen()

    def _listen(self) -> None:
        self.lines: list[str] = []
        self._listener = threading.Thread(target=self._gather, daemon=True)
        if self._process.stdout is not None:
            self._listener.start()

    def _gather(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def tell(self, line: str) -> None:
        """Write a line to its input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as if the machine had failed, and wait for that."""
        self._process.kill()
        self._process.wait()

    async def froze(self) -> None:
        """Wait until the process is stopped."""
        await until(lambda: state_of(self.pid) == "T", f"{self} is stopped")

    async def died(self) -> int:
        """Wait until the process is gone; its exit code, minus a signal's number."""
        await until(lambda: self.has_ended, f"{self} ends")
        return self._process.wait()

    async def end_in_order(self) -> int:
        """Ask it to end; its exit code."""
        self.signal(signal.SIGTERM)
        return await self.died()

    def wait(self) -> int:
        """Wait until the process is gone and all its lines are there; its exit code."""
        until_blocking(lambda: self.has_ended, f"{self} ends")
        if self._listener.is_alive():
            self._listener.join()
        return self._process.wait()

    def end(self) -> None:
        """Leave nothing behind."""
        self.kill()
        if self._listener.is_alive():
            self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.pid}"


class ForeignProgram(Program):
    """Any command, with nothing in its environment but what it is given."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, cwd=ROOT, env={**environment}, text=True, **pipes)
        self._listen()


class WorkerProgram(Program):
    """A worker.

    concurrency, poll_seconds, gather_seconds, prefetch, listens: options of the worker; prefetch is the size of a local
        queue
    recovery: its settings, in seconds; None: the worker is given no config
    faults: those of `ferryman.worker.sync_points`; None: points are not even noted
    statement_seconds, connect_seconds: how long the database may take
    longest_pause_seconds: between two tries to do what the database refuses
    sweep_idle_seconds: how long the server keeps the lock of a sweeper that is frozen
    standstill: a file with the seconds for which its machine was suspended, as a double
    process: how to start it, for `Program`
    """

    def __init__(
        self,
        dsn: str,
        history: History,
        *,
        concurrency: int = 3,
        poll_seconds: float = 0.5,
        gather_seconds: float = 0.0,
        prefetch: int | None = None,
        listens: bool = True,
        recovery: Mapping[str, Any] | None = OFF,
        faults: str | None = "",
        statement_seconds: float = 60.0,
        connect_seconds: int = 20,
        longest_pause_seconds: float = 1.0,
        sweep_idle_seconds: float = 2.0 * CROWD,
        standstill: str | None = None,
        **process: Any,
    ) -> None:
        self._history = history
        options = {
            "concurrency": concurrency,
            "poll_seconds": poll_seconds,
            "gather_seconds": gather_seconds,
            "prefetch": prefetch,
            "listens": listens,
            "recovery": recovery and {**recovery},
            "faults": faults,
            "statement_seconds": statement_seconds,
            "connect_seconds": connect_seconds,
            "longest_pause_seconds": longest_pause_seconds,
            "sweep_idle_seconds": sweep_idle_seconds,
            "standstill": standstill,
        }
        super().__init__("tests.support.programs.worker", dsn, str(history.path), json.dumps(options), **process)

    @property
    def first_id(self) -> str:
        """The id that it started with; see `ready`."""
        [line] = self._history.lines("ready", pid=self.pid)
        return str(line["worker"])

    async def ready(self) -> None:
        """Wait until it is about to claim jobs."""
        await until(lambda: self._history.lines("ready", pid=self.pid), f"{self} starts")

    async def died(self) -> int:
        code = await super().died()
        self._history.note("died", process=self.pid)
        return code

    async def reached(self, point: str) -> None:
        """Wait until it was at a sync point."""
        await until(lambda: self._history.lines("reached", pid=self.pid, point=point), f"{point} is reached")

    def logged(self, event: str, **fields: Any) -> list[str]:
        """The messages of its log about this event, with these fields."""
        return [line["message"] for line in self._history.lines("log", pid=self.pid, about=event, **fields)]

    @property
    def failures(self) -> list[str]:
        """The messages of its log about anything that failed."""
        lines = self._history.lines("log", pid=self.pid)
        return [line["message"] for line in lines if line["about"].endswith("_failed")]

    async def in_trouble(self, *duties: str) -> None:
        """Wait until it has told that these duties fail."""
        for duty in duties:
            await until(lambda duty=duty: self.logged("duty_failed", duty=duty), f"{duty} is in trouble")

    async def out_of_trouble(self, *duties: str) -> None:
        """Wait until all its trouble is over; each was told once when it began and once when it ended."""
        for duty in [*duties, *self._duties("duty_failed")]:
            await until(lambda duty=duty: self.logged("duty_works_again", duty=duty), f"{duty} works again")
        begun, ended = self._duties("duty_failed"), self._duties("duty_works_again")
        assert sorted(begun) == sorted(ended) == sorted({*begun}), (begun, ended)

    def _duties(self, event: str) -> list[str]:
        return [line["duty"] for line in self._history.lines("log", pid=self.pid, about=event)]


class BeatingProgram(Program):
    """A process that only gives signs of life, and tells what it hears of others."""

    def __init__(self, dsn: str, rhythm: Rhythm) -> None:
        super().__init__("tests.support.programs.beating", dsn, json.dumps(asdict(rhythm)), talks=True)

    @property
    def worker_id(self) -> str:
        return str(self.told("registered")[-1]["worker"])

    def told(self, event: str, **details: Any) -> list[dict[str, Any]]:
        """What it has told of this kind."""
        lines = map(json.loads, [*self.lines])
        return [line for line in lines if line["event"] == event and details.items() <= line.items()]

    async def registered(self) -> None:
        await until(lambda: self.told("registered"), f"{self} is registered")


def migrator(dsn: str) -> Program:
    """A process that waits for the word to migrate; see `race`."""
    return Program("tests.support.programs.migrator", dsn, talks=True)


def race(programs: list[Program]) -> list[str]:
    """Wait until all are ready, give the word to all, and collect what they say; fails when one of them fails."""
    try:
        for program in programs:
            until_blocking(lambda program=program: program.lines or program.has_ended, f"{program} is ready")
            assert program.lines == ["ready"]
        for program in programs:
            program.tell("go")
        assert [program.wait() for program in programs] == [0] * len(programs)
        return ["\n".join(program.lines[1:]) for program in programs]
    finally:
        for program in programs:
            program.end()


def state_of(pid: int) -> str:
    """The letter that the kernel has for the state of a process; none when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    """It exists, and is not just waiting to be buried by its parent."""
    return state_of(pid) not in {"", "Z", "X"}


async def gone(pid: int) -> None:
    """Wait until the process is gone."""
    await until(lambda: not is_running(pid), f"the end of process {pid}")


def note_pid(note: str | Path, pid: int | None = None) -> None:
    """Write a pid in one step: a reader finds the whole of it or nothing."""
    draft = Path(f"{note}.draft")
    draft.write_text(str(os.getpid() if pid is None else pid))
    draft.rename(note)


async def noted_pid(note: Path) -> int:
    """Wait for a task to say that it runs, and in which process."""
    await until(note.exists, f"{note.name}: a task that begins")
    return _number_in(note)


def _number_in(note: Path) -> int:
    return int(note.read_text())
