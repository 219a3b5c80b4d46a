"""Checks the history of a chaos run against the rules below. Pure: lines go in, breaches and counts come out.

Most rules are those of the kill proof. These are about neighbours:

Nothing is lost        A job whose addition was committed is gone because its last run ended, because its handler
                       completed it in a transaction that was committed, or because an operator deleted it. Or it is
                       there, has no attempt left, and the history says why; and its payload is the last one.
Over is over           A job is not claimed after it was overwritten or retired, or after an operator, a handler or a
                       sweep has ended it.
No foreign settlement  A handler's transaction that completes its job is refused once a sweep has taken the job.
Nothing stays locked   At the end no job and no queue is locked, no worker registered, and no session open.
No deadlocks           No statement of a worker is part of one. Neighbours may deadlock with each other.

An operator may give a job attempts anew. For such a job the rules about attempts do not hold.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.chaos.past import DELETING, ChaosPast, translated
from benchmarks.kill import checker as kills
from benchmarks.kill.checker import FINAL, MAX_CRASHES, Breach, Verdict
from benchmarks.kill.looking import SCHEMA
from ferryman.database.identifiers import SchemaName
from ferryman.database.statements import Style
from ferryman.queries.inventory import find_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.history import Line

STATEMENTS = (
    "complete_claims",
    "release_claims",
    "lock_claims",
    "return_lost_claims",
    "renew_claims",
    "mark_started",
    "lock_interrupted_jobs",
    "recover_jobs",
    "claim_plain_jobs",
    "claim_jobs",
    "claim_jobs_by_task",
)
"""Those of workers that lock rows."""
CHARACTERS_TO_KNOW_IT = 120
"""The log has the beginning of a statement only."""


def judge(lines: Iterable[Line]) -> Verdict:
    """Find every breach of the rules."""
    past = ChaosPast(translated(lines))
    duplicates: Counter[str] = Counter()
    by_rule = {
        "jobs lost": [*lost_jobs(past)],
        "jobs run that were rolled back": [*kills.phantoms(past), *absorbed_jobs(past)],
        "settlements by others than the owner": [*kills.foreign_settlements(past), *foreign_transactions(past)],
        "settlements refused without a cause": [*kills.needless_refusals(past)],
        "runs without a cause": [*kills.needless_runs(past, duplicates)],
        "named queues that ran two jobs at once": [*kills.shared_queues(past)],
        "attempts that the past does not explain": [*wrong_attempts(past)],
        "jobs that ran after they were over": [*revived_jobs(past)],
        "jobs poisoned too early or too late": [*wrong_poison(past)],
        "jobs that stayed locked": [*locked_jobs(past)],
        "queues, workers and sessions left at the end": [*kills.leftovers(past)],
        "deadlocks with statements of workers": [*deadlocks(past)],
    }
    return kills.verdict_of(past, by_rule, duplicates)


def lost_jobs(past: ChaosPast) -> Iterator[Breach]:
    for job, contents in past.contents.items():
        number, left = contents[-1]["number"], past.left_by_job.get(job)
        if left is None:
            if not _may_be_gone(past, job, number):
                yield Breach(f"job {job} was lost: it is gone, and its last run did not end", number)
            continue
        used = f"{left['attempts']} of {left['max_attempts']} attempts"
        if left["attempts"] < left["max_attempts"]:
            yield Breach(f"job {job} is still there ({used})", number)
        elif not _may_have_failed(past, job, number, left):
            yield Breach(f"job {job} has failed for good without a cause ({used})", number)
        if left["number"] != number:
            yield Breach(f"job {job} has the payload of number {left['number']}, which was overwritten", number)


def _may_be_gone(past: ChaosPast, job: int, number: int) -> bool:
    runs = past.runs_of_job.get(job, [])
    if job in past.deleted or any(map(past.has_completed_itself, runs)):
        return True
    return bool(runs) and runs[-1].number == number and runs[-1].end == "ended" and runs[-1].crash is None


def _may_have_failed(past: ChaosPast, job: int, number: int, left: Line) -> bool:
    if job in past.retired or job in past.failed_by_hand or job in past.restarted:
        return True
    if any(crash["decision"] in FINAL for crash in past.crashes[number]):
        return True
    return bool(kills.used_attempts(past, number, math.inf) >= left["max_attempts"])


def absorbed_jobs(past: ChaosPast) -> Iterator[Breach]:
    absorbed = {line["number"] for line in past.of("absorbed")}
    for run in past.all_runs:
        if run.number in absorbed:
            yield Breach(f"job {run.job} ran with a payload that its key should have absorbed", run.number)


def foreign_transactions(past: ChaosPast) -> Iterator[Breach]:
    for run in past.all_runs:
        if run.crash is not None and past.has_completed_itself(run):
            yield Breach(
                f"job {run.job} was completed in a transaction of {run.worker}, from which it had been taken",
                run.number,
            )


def wrong_attempts(past: ChaosPast) -> Iterator[Breach]:
    restarted = {line["number"] for job in past.restarted for line in past.contents[job]}
    return (breach for breach in kills.wrong_attempts(past) if breach.number not in restarted)


def revived_jobs(past: ChaosPast) -> Iterator[Breach]:
    for ending in _endings(past):
        for run in past.runs_of_job.get(ending.job, ()):
            is_meant = ending.number is None or (run.number == ending.number and run.job not in past.restarted)
            if is_meant and run.claimed > ending.wall:
                yield Breach(f"job {run.job} was {ending.text}, and claimed after that", run.number)


class Ending(NamedTuple):
    """An event after which a job must not be claimed any more.

    number: which content of the job it is about; None: it is gone for good
    """

    job: int
    number: int | None
    wall: int
    text: str


def _endings(past: ChaosPast) -> Iterator[Ending]:
    for number, successor in past.successors.items():
        job = past.added[number]["job"]
        yield Ending(job, number, successor["wall"], _taking_over(job, successor))
    for line in past.of(*DELETING):
        yield Ending(line["job"], None, line["wall"], line["event"])
    for line in past.of("committed"):
        yield Ending(line["job"], None, line["wall"], "completed by its handler")
    for line in past.of("failed by hand"):
        before = [content["number"] for content in past.contents[line["job"]] if content["at"] < line["at"]]
        yield Ending(line["job"], before[-1], line["wall"], "failed by hand")
    for number, crashes in past.crashes.items():
        for crash in crashes:
            if crash["decision"] in FINAL:
                yield Ending(crash["job"], number, crash["noticed"], "ended by a sweep for good")


def _taking_over(job: int, successor: Line) -> str:
    if successor["event"] == "retired":
        return "removed while it ran"
    return "overwritten" if successor["job"] == job else f"superseded by {successor['job']}"


def wrong_poison(past: ChaosPast) -> Iterator[Breach]:
    """Check which jobs were poisoned, by id: a job that is overwritten while it waits keeps its crashes.

    So does one that was retired, for which no sweep decides anything but which an operator may restart.
    """
    by_job: dict[int, list[Line]] = {}
    for crash in past.of("crash"):
        by_job.setdefault(crash["job"], []).append(crash)
    for job, crashes in by_job.items():
        counted = known = 0
        for crash in crashes:
            counted += crash["started"] is not False
            known += crash["started"] is True and crash["decision"] != "superseded"
            if known > MAX_CRASHES:
                yield Breach(f"job {job} crashed {known} times", past.contents[job][-1]["number"])
            if crash["decision"] == "poisoned":
                if counted < MAX_CRASHES:
                    yield Breach(f"job {job} was poisoned after {counted} crashes", past.contents[job][-1]["number"])
                counted = known = 0


def locked_jobs(past: ChaosPast) -> Iterator[Breach]:
    for line in past.of("left"):
        if line["worker"] is not None:
            yield Breach(f"job {line['job']} stayed locked by {line['worker']}", line["number"])


def deadlocks(past: ChaosPast) -> Iterator[Breach]:
    beginnings = {name: _beginning(name) for name in STATEMENTS}
    for line in past.of("deadlock"):
        ours = [name for name, beginning in beginnings.items() if beginning in line["text"]]
        if ours:
            yield Breach(f"a deadlock with {' or '.join(ours)}: {line['text']}")


def _beginning(name: str) -> str:
    text: str = find_query(name).statement.text(SchemaName(SCHEMA), Style.NUMBERED)
    return " ".join(text.split())[:CHARACTERS_TO_KNOW_IT]
