"""Histories made by hand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from benchmarks.chaos.checker import judge as judge_chaos
from benchmarks.kill.checker import judge

MILLISECOND = 1000


@dataclass
class Forged:
    """Lines, a millisecond apart on both clocks, unless time is let pass."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    now: int = 1_000_000
    _runs: Any = field(default_factory=lambda: itertools.count(1))

    def note(self, event: str, *, process: int = 0, **facts: Any) -> None:
        self.now += MILLISECOND
        self.lines.append({"event": event, "at": self.now * 1000, "wall": self.now, "process": process, **facts})

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)

    def add(self, number: int, *, key: str | None = None, is_undone: bool = False) -> None:
        self.note("adding", number=number, task="on_loop", key=key, is_undone=is_undone)
        if not is_undone:
            self.note("added", number=number, job=number + 100, key=key, max_attempts=25)

    def start(
        self, number: int, process: int, *, job: int | None = None, queue: str | None = None, attempt: int = 1
    ) -> dict[str, Any]:
        """A claim, and the run that it leads to."""
        self.now += MILLISECOND
        worker = f"w{process}"
        run = {
            "run": str(next(self._runs)),
            "job": number + 100 if job is None else job,
            "number": number,
            "worker": worker,
            "claim": f"{self.now:012} {worker} {number}",
            "process": process,
        }
        self.note("started", **run, claimed=self.now, queue=queue, attempt=attempt, max_attempts=25)
        return run

    def end(self, run: dict[str, Any], event: str = "ended") -> None:
        self.note(event, **run)

    def settle(self, run: dict[str, Any], event: str = "settled") -> None:
        self.note(event, **{name: run[name] for name in ("job", "worker", "claim", "process")})

    def kill(self, process: int) -> None:
        self.note("killing", of=process)
        self.note("died", of=process, code=-9)

    def sweep(self, run: dict[str, Any], decision: str = "requeue", *, attempt: int = 1, started: bool = True) -> None:
        self.note(
            "crash",
            job=run["job"],
            worker=run["worker"],
            attempt=attempt,
            started=started,
            decision=decision,
            reason="session lost",
            noticed=self.now,
        )

    def complete(self, number: int, process: int, **facts: Any) -> None:
        """A run as it should be."""
        run = self.start(number, process, **facts)
        self.end(run)
        self.settle(run)

    def crash(self, number: int, process: int, decision: str = "requeue", **facts: Any) -> None:
        """A run whose worker is killed and swept."""
        run = self.start(number, process, **facts)
        self.kill(process)
        self.sweep(run, decision, attempt=facts.get("attempt", 1))

    def end_child(self, number: int, process: int, event: str = "gave back", *, attempt: int = 1) -> None:
        """A run that ends the child process that it has, and its worker tells of it."""
        run = self.start(number, process, attempt=attempt)
        self.note("exiting", **run, is_child=True)
        self.settle(run, event)

    def left(self, number: int, *, job: int | None = None, attempts: int = 25, worker: str | None = None) -> None:
        job = number + 100 if job is None else job
        self.note("left", number=number, job=job, attempts=attempts, max_attempts=25, worker=worker)

    def breaches(self, *, thawed_are_refused: bool = False) -> list[str]:
        """What the checker says, when the history is over."""
        return [breach.text for breach in judge(self.over(), thawed_are_refused=thawed_are_refused).breaches]

    def over(self) -> list[dict[str, Any]]:
        """The lines, with the last one."""
        over = {"event": "over", "at": (self.now + 1) * 1000, "wall": self.now + 1, "process": 0}
        return [*self.lines, {**over, "workers": [], "sessions": 0}]


@dataclass
class ForgedChaos(Forged):
    """The same, with neighbours."""

    _transactions: Any = field(default_factory=lambda: itertools.count(700))

    def act(self, *acts: dict[str, Any], status: str | None = "committed") -> None:
        """A neighbour's transaction, and what became of it."""
        number = next(self._transactions)
        self.note("acts", neighbour="forged", transaction=number, acts=[*acts])
        self.note("transaction", transaction=number, status=status)

    def add(
        self,
        number: int,
        *,
        job: int | None = None,
        revision: int = 0,
        key: str | None = None,
        mode: str = "REPLACE",
        is_undone: bool = False,
    ) -> None:
        addition = {
            "event": "adding", "number": number, "task": "on_loop", "key": key, "max_attempts": 25,
            "job": number + 100 if job is None else job, "revision": revision, "mode": mode,
        }  # fmt: skip
        self.act(addition, status="aborted" if is_undone else "committed")

    def operate(self, event: str, number: int) -> None:
        """An operator does something to a job."""
        self.act({"event": event, "job": number + 100})

    def commit(self, run: dict[str, Any], *, status: str = "committed") -> None:
        """A handler completes its job in a transaction, and its process is killed before it can say so."""
        number = next(self._transactions)
        self.note("committing", **run, transaction=number)
        self.note("transaction", transaction=number, status=status)

    def breaches(self, *, thawed_are_refused: bool = False) -> list[str]:
        assert not thawed_are_refused
        return [breach.text for breach in judge_chaos(self.over()).breaches]
