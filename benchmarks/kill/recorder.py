"""Writes what a process does to the history, a file outside PostgreSQL."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.history import History, claim_of_job

if TYPE_CHECKING:
    from ferryman import Job, WorkerContext

PROCESS = "FERRYMAN_PROOF_PROCESS"
"""The variable that tells a child process whose it is."""
FOLDER = "FERRYMAN_PROOF_FOLDER"


class Recorder:
    """Writes the events of one worker process to the history. Processes have numbers: process ids are reused."""

    def __init__(self, folder: Path, process: int, *, is_child: bool = False) -> None:
        self.folder = folder
        self.process = process
        self.is_child = is_child
        """True in a child process of that worker: it may end, and the worker goes on."""
        self._history = History(folder / "history.jsonl")
        self._runs = itertools.count(1)

    @classmethod
    def of_environment(cls) -> Recorder:
        """Make the recorder of a child process of a worker."""
        return cls(Path(os.environ[FOLDER]), int(os.environ[PROCESS]), is_child=True)

    def note(self, event: str, **facts: Any) -> None:
        """Append a line, with the time on the clock that PostgreSQL has too."""
        self._history.note(event, process=self.process, wall=time.time_ns() // 1000, **facts)

    def begin(self, ctx: WorkerContext, number: int) -> dict[str, Any]:
        """Note that a run has begun, and return the values that its later lines share."""
        job = ctx.job
        run = {"run": f"{self.process}.{os.getpid()}.{next(self._runs)}", **claim_facts(job), "number": number}
        self.note(
            "started",
            **run,
            claimed=microseconds(job),
            queue=job.queue_name,
            attempt=job.attempts,
            max_attempts=job.max_attempts,
        )
        return run

    def is_first(self, number: int, times: int, what: str) -> bool:
        """True if something that is to happen `times` times to a job has happened less often yet; counts this one."""
        for time_ in range(times):
            try:
                (self.folder / f"{what}-{number}-{time_}").touch(exist_ok=False)
            except FileExistsError:
                continue
            return True
        return False


def claim_facts(job: Job) -> dict[str, Any]:
    """Return the values that identify a claim."""
    return {"job": job.id, "worker": job.locked_by, "claim": claim_of_job(job)}


def microseconds(job: Job) -> int:
    """Return when the job was claimed, by PostgreSQL's clock."""
    assert job.locked_at is not None
    return round(job.locked_at.timestamp() * 1_000_000)
