"""What must hold for a history, whatever happened to those who wrote it.

added    the job is in the database
started  an attempt began: its run (a unique id), its claim (when it was made, who owns what), its queue
ended    that run returned
settled  its worker told hooks that the job is complete
refused  its worker told hooks that the claim was lost
freed    somebody took these claims away: the fault that touches their runs
died     a process is gone
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.history import History, Line


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
