"""The history of a chaos run: what neighbours did, transaction by transaction, becomes what happened to each job.

A job that waits is overwritten when its key is used again: it keeps its id, and gets the number of the newer one. One
that is running is *retired*: it loses its key and ends with this run, and the newer one has an id of its own. The id
and the revision that come back of an addition tell which of these happened.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from benchmarks.kill.checker import Past

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.history import Line

    from benchmarks.kill.checker import Run

COMMITTED = "committed"
DELETING = ("completed by hand", "removed")
"""What neighbours do to a job that waits, which is gone then."""

USUAL = (
    "worker processes",
    "killed with SIGKILL",
    "ended in order",
    "frozen, most of them until they were swept",
)
GOING_ON = (
    "handlers that ended after their claim was lost",
    "threads that went on after their job was given back",
)
BY_HAND = (*DELETING, "retired", "failed by hand", "rescheduled", "restarted")


def translated(lines: Iterable[Line]) -> list[Line]:
    """Return the history with a line for each thing that a committed transaction did to a job."""
    lines = sorted(lines, key=lambda line: line["at"])
    committed = {
        line["transaction"] for line in lines if line["event"] == "transaction" and line["status"] == COMMITTED
    }
    told: list[Line] = []
    for line in lines:
        told.append(line)
        if line["event"] == "acts":
            told += _told(line, is_committed=line["transaction"] in committed)
        elif line["event"] == "committing" and line["transaction"] in committed:
            told.append({**line, "event": "committed"})
    return told


def _told(line: Line, *, is_committed: bool) -> Iterator[Line]:
    common = {name: value for name, value in line.items() if name != "acts"}
    for act in line["acts"]:
        if act["event"] == "adding":
            yield {**common, **act, "is_undone": not is_committed}
            if is_committed:
                is_absorbed = act["mode"] == "UNSAFE_DEDUPE" and act["revision"] > 0
                yield {**common, **act, "event": "absorbed" if is_absorbed else "added"}
        elif is_committed:
            yield {**common, **act}


class ChaosPast(Past):
    """The history of a chaos run, put in order."""

    @cached_property
    def contents(self) -> dict[int, list[Line]]:
        """The contents of each job, by its id: committed additions, each in place of the one before."""
        by_job: defaultdict[int, list[Line]] = defaultdict(list)
        for line in self.of("added"):
            by_job[line["job"]].append(line)
        return by_job

    @cached_property
    def retired(self) -> dict[int, Line]:
        """What took the key from a job: from then on it can only end. By its id; it may have been gone by then."""
        retired = {line["job"]: line for line in self.of("retired")}
        holders: dict[str, int] = {}
        for line in self.of("added"):
            if line["key"] is None:
                continue
            before = holders.get(line["key"])
            if before is not None and before != line["job"]:
                retired.setdefault(before, line)
            holders[line["key"]] = line["job"]
        return retired

    @cached_property
    def successors(self) -> dict[int, Line]:
        """The job that took the place of another, or its key, by the number of the earlier one."""
        successors: dict[int, Line] = {}
        for job, lines in self.contents.items():
            for earlier, later in itertools.pairwise(lines):
                successors[earlier["number"]] = later
            if job in self.retired:
                successors[lines[-1]["number"]] = self.retired[job]
        return successors

    @cached_property
    def restarted(self) -> set[int]:
        """Jobs that were given attempts by an operator, by id: what they had used up before does not count."""
        return {line["job"] for line in self.of("restarted")}

    @cached_property
    def deleted(self) -> set[int]:
        """Jobs that a neighbour has deleted, by id."""
        return {line["job"] for line in self.of(*DELETING)}

    @cached_property
    def failed_by_hand(self) -> set[int]:
        """Jobs that an operator has failed, by id."""
        return {line["job"] for line in self.of("failed by hand")}

    @cached_property
    def left_by_job(self) -> dict[int, Line]:
        """Jobs that are still in the table, by id."""
        return {line["job"]: line for line in self.of("left")}

    @cached_property
    def committed_at(self) -> dict[str, int]:
        """The times at which handlers were about to commit transactions that completed their jobs, by claim."""
        return {line["claim"]: line["at"] for line in self.of("committed")}

    @cached_property
    def runs(self) -> dict[int, list[Run]]:
        """The runs of each job, by number, in the order of claims. Hooks report timeouts at a worker's end."""
        by_number: dict[int, list[Run]] = super().runs
        for runs in by_number.values():
            for run in runs:
                if run.end == "cancelled" and run.claim in self._failed:
                    run.end = "raised"
        return by_number

    @cached_property
    def runs_of_job(self) -> dict[int, list[Run]]:
        """The runs of each job, by id, in the order of their claims."""
        by_job: defaultdict[int, list[Run]] = defaultdict(list)
        for run in sorted(self.all_runs, key=lambda run: (run.claimed, run.at)):
            by_job[run.job].append(run)
        return by_job

    def has_completed_itself(self, run: Run) -> bool:
        """True if the run completed its job in a transaction that was committed."""
        return run.claim in self.committed_at

    def over_at(self, run: Run) -> float:
        """Return when the run was over, its worker lost the claim, or a transaction had completed the job."""
        return min(super().over_at(run), self.committed_at.get(run.claim, math.inf))

    def counts(self) -> dict[str, int]:
        """Return counts for the report."""
        usual = super().counts()
        ends = Counter(line["status"] for line in self.of("transaction"))
        acted = self.of("acted")
        return {
            **{name: usual[name] for name in USUAL},
            "jobs": len(self.contents),
            "    overwritten while they waited": sum(len(lines) - 1 for lines in self.contents.values()),
            "    whose key went to a job with another id": len(self.retired),
            "additions absorbed by the job that had the key": len(self.of("absorbed")),
            "additions rolled back": usual["jobs rolled back"],
            "runs": usual["runs"],
            "    that snoozed": len(self.of("snoozed")),
            "    that raised or timed out": sum(run.end == "raised" for run in self.all_runs),
            "    that completed their job in a transaction": len(self.of("committed")),
            "settlements refused": usual["settlements refused"],
            "jobs recovered": usual["jobs recovered"],
            "failed for good": usual["failed for good"],
            **{name: usual[name] for name in GOING_ON},
            "transactions of handlers and neighbours": len(self.of("transaction")),
            "    rolled back, or their session ended": len(self.of("transaction")) - ends[COMMITTED],
            "sessions of neighbours that were killed": sum(map(_is_killed, acted)),
            "jobs changed or removed by operators": sum(len(self.of(event)) for event in BY_HAND),
            "deadlocks": len(self.of("deadlock")),
        }

    @cached_property
    def _failed(self) -> set[str]:
        return {line["claim"] for line in self.of("gave back", "gave up")}


def _is_killed(acted: Line) -> bool:
    """True if another process ended this neighbour's session. Any other failure is a deadlock."""
    return acted["error"] is not None and "deadlock" not in acted["error"]
