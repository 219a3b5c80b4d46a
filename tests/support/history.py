"""What happened, told by every process in one file of JSON lines: it survives PostgreSQL and all who write it.

added    the job is in the database
started  an attempt began: its run (a unique id), its claim (when it was made, who owns what), its queue
ended    that run returned
settled  its worker told hooks that the job is complete
refused  its worker told hooks that the claim was lost
freed    somebody took these claims away: the fault that touches their runs
died     a process is gone

`check` says what must hold for a history, whatever happened to those who wrote it.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
import time
from collections import Counter, defaultdict
from datetime import UTC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from ferryman import Job

Line = dict[str, Any]
BEGINNING = b'{"event": "'


class History:
    """A file that any number of processes append to. What was read once is not read again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._read_bytes = 0
        self._told: defaultdict[str, list[Line]] = defaultdict(list)
        self._reading = threading.Lock()

    def close(self) -> None:
        os.close(self._descriptor)

    def note(self, event: str, **facts: Any) -> None:
        """Append a line; one write, so that lines of several processes do not mix."""
        line = {"event": event, "at": time.monotonic_ns(), "pid": os.getpid(), **facts}
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def lines(self, event: str | None = None, **facts: Any) -> list[Line]:
        """What was noted so far, in order of time; only lines of this event and with these facts, if given."""
        with self._reading:
            self._read()
            told = [*itertools.chain(*self._told.values())] if event is None else self._told[event]
            matching = [line for line in told if facts.items() <= line.items()]
        return sorted(matching, key=lambda line: line["at"])

    def _read(self) -> None:
        """Read what is new. The last line may be half written, and is left for the next time."""
        size = os.fstat(self._descriptor).st_size
        news = os.pread(self._descriptor, size - self._read_bytes, self._read_bytes)
        whole = news[: news.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in map(_told, whole.splitlines()):
            self._told[line["event"]].append(line)

    def jobs(self, event: str, **facts: Any) -> list[int]:
        """The jobs of these lines."""
        return [line["job"] for line in self.lines(event, **facts)]


def _told(line: bytes) -> Line:
    """A process that is killed in the middle of a write leaves half a line, to which the next is glued."""
    whole: Line = json.loads(line[line.rindex(BEGINNING) :])
    return whole


def claim_of(job_id: int, worker_id: str | None, locked_at: datetime | None) -> str:
    """A name for a claim; later claims to a job come later in the alphabet."""
    assert locked_at is not None
    return f"{locked_at.astimezone(UTC).isoformat(timespec='microseconds')} {worker_id} {job_id}"


def claim_of_job(job: Job) -> str:
    """The name of the claim under which a job runs."""
    return claim_of(job.id, job.locked_by, job.locked_at)


def check(history: History) -> None:
    """Fail with every breach that the history shows."""
    breaches = [
        *lost_jobs(history),
        *phantom_jobs(history),
        *foreign_settlements(history),
        *needless_runs(history),
        *shared_queues(history),
    ]
    assert not breaches, "\n".join(breaches)


def lost_jobs(history: History) -> Iterator[str]:
    """Every job that was added ran to its end."""
    ended = set(history.jobs("ended"))
    return (f"job {job} was lost" for job in history.jobs("added") if job not in ended)


def phantom_jobs(history: History) -> Iterator[str]:
    """Nothing ran that was not added."""
    added = set(history.jobs("added"))
    return (f"job {job} was never added" for job in history.jobs("started") if job not in added)


def foreign_settlements(history: History) -> Iterator[str]:
    """A job is settled once, under the last claim to it."""
    last_claim = {line["job"]: line["claim"] for line in sorted(history.lines("started"), key=lambda run: run["claim"])}
    for job, count in Counter(history.jobs("settled")).items():
        if count > 1:
            yield f"job {job} was settled {count} times"
    for line in history.lines("settled"):
        if line["claim"] != last_claim.get(line["job"]):
            yield f"job {line['job']} was settled by {line['worker']}, which did not own it"


def needless_runs(history: History) -> Iterator[str]:
    """A job runs once, and once more for each fault that touched one of its runs."""
    runs = defaultdict(list)
    for line in history.lines("started"):
        runs[line["job"]].append(line)
    for job, started in runs.items():
        touched = sum(_freed_at(history, run) < math.inf for run in started)
        if len(started) > 1 + touched:
            yield f"job {job} ran {len(started)} times, but faults touched it {touched} times"


def shared_queues(history: History) -> Iterator[str]:
    """A named queue never has two owners. A run that lost its claim does not count from then on."""
    queues = defaultdict(list)
    for run in history.lines("started"):
        if run["queue"] is not None and _over_at(history, run) > run["at"]:
            queues[run["queue"]].append(run)
    for queue, runs in queues.items():
        for earlier, later in itertools.pairwise(runs):
            if _over_at(history, earlier) > later["at"]:
                yield f"queue {queue!r} ran jobs {earlier['job']} and {later['job']} at once"


def _over_at(history: History, run: Line) -> float:
    ended = [line["at"] for line in history.lines("ended", run=run["run"])]
    died = [line["at"] for line in history.lines("died", process=run["pid"])]
    return min([*ended, *died, _freed_at(history, run)])


def _freed_at(history: History, run: Line) -> float:
    return min((line["at"] for line in history.lines("freed") if run["claim"] in line["claims"]), default=math.inf)
