"""What the workers of the demo have noted in a file outside PostgreSQL, and what follows from it.

start, end, raise   a handler began, returned, or raised
settle, fail        its worker was told that the end of the attempt is stored
refuse              its worker was told that the job was not its own any more
take                the job was taken away from a dead worker
sweep               a worker found others dead
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    what: str
    at: int
    """Nanoseconds, by the clock that all processes of the machine share."""
    worker: str
    job: int = 0
    task: str = ""
    queue: str | None = None
    claim: str = ""
    dead: Sequence[str] = ()
    to: str = ""
    cron: dict[str, Any] | None = None


class History:
    """The notes of all workers, in order of time."""

    def __init__(self, file: Path) -> None:
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        whole = (json.loads(line) for line in lines if line.endswith(b"\n"))
        self._notes = sorted((Note(**line) for line in whole), key=lambda note: note.at)

    def of(self, *what: str, worker: str | None = None, task: str | None = None) -> list[Note]:
        return [
            note
            for note in self._notes
            if note.what in what and worker in {None, note.worker} and task in {None, note.task}
        ]

    def in_hand(self, worker: str) -> set[int]:
        """Jobs that the worker has begun and not ended."""
        over = {note.claim for note in self.of("end", "raise", worker=worker)}
        return {note.job for note in self.of("start", worker=worker) if note.claim not in over}

    def taken_from(self, worker: str) -> set[int]:
        return {note.job for note in self.of("take", worker=worker)}

    def begun_and_taken(self, worker: str) -> set[int]:
        """What the worker has an outcome for. What it had only just claimed, it lets go without a word."""
        return {note.job for note in self.of("start", worker=worker) if note.claim in self._taken}

    def refused(self, worker: str) -> set[int]:
        return {note.job for note in self.of("refuse", worker=worker)}

    def noticed(self, worker: str) -> Note | None:
        """When the worker was found dead, and by whom."""
        return next((note for note in self.of("sweep") if worker in note.dead), None)

    def starts_elsewhere(self, worker: str, after: int) -> dict[int, int]:
        """When each job of the worker was first begun by another one."""
        mine = self.taken_from(worker) | self.in_hand(worker)
        starts = reversed([note for note in self.of("start") if note.worker != worker and note.at > after])
        return {note.job: note.at for note in starts if note.job in mine}

    def lost(self, jobs: Collection[int]) -> set[int]:
        """Jobs that no owner has run to the end."""
        return set(jobs) - {note.job for note in self.of("end") if note.claim not in self._taken}

    def settled_by_others(self) -> list[Note]:
        """Settlements under a claim that never began to run, or that had been taken away."""
        owned = {note.claim for note in self.of("start")} - self._taken
        return [note for note in self.of("settle", "fail") if note.claim not in owned]

    def settled_twice(self) -> list[int]:
        return [job for job, times in Counter(note.job for note in self.of("settle")).items() if times > 1]

    def times_run(self, jobs: Collection[int]) -> Counter[int]:
        """How many of the jobs that no fault has touched ran how often."""
        wanted = set(jobs) - {note.job for note in self.of("take")}
        return Counter(Counter(note.job for note in self.of("start") if note.job in wanted).values())

    def overlaps(self) -> list[str]:
        """Queues in which a job began before the one before it had ended; what dead workers held was over by then."""
        of_queue: dict[str, list[bool]] = {}
        for note in self.of("start", "end"):
            if note.queue and note.claim not in self._taken:
                of_queue.setdefault(note.queue, []).append(note.what == "start")
        return [queue for queue, starts in of_queue.items() if any(a == b for a, b in pairwise(starts))]

    @property
    def _taken(self) -> set[str]:
        return {note.claim for note in self.of("take")}
