"""Checks for jobs that will never run: without a task or queue, failed for good, or poisoned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.health.report import Finding, Repair, Severity
from ferryman.health.wording import counted, listed
from ferryman.queries import checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.database.steps import Steps
    from ferryman.health.subject import Subject

FIX = "ferryman doctor --fix"


def check_dangling(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for jobs whose task or queue was deleted from its table."""
    rows = yield checks.dangling()
    findings = [_dangling(subject, *row) for row in rows]
    return findings or [Finding(check="dangling_jobs", severity=Severity.OK, seen="every job has its task and queue")]


def _dangling(subject: Subject, kind: str, number: int, job_ids: Sequence[int], numbers: Sequence[int]) -> Finding:
    facts = {"kind": kind, "jobs": number, "job_ids": job_ids, "numbers": numbers}
    jobs = f"{counted(number, 'job')} ({listed(job_ids, number)})"
    if kind == "unnamed":
        return Finding(
            check="dangling_jobs",
            severity=Severity.WARNING,
            seen=f"{jobs}: the name of the task is lost",
            meaning="An earlier repair gave the task a made-up name. Move the jobs to their task.",
            remedies=tuple(_renaming(subject, lost) for lost in numbers),
            facts=facts,
        )
    repair = Repair.DANGLING_QUEUES if kind == "queue" else Repair.DANGLING_TASKS
    outcome = (
        "The repair gives them a queue with a made-up name, and they run."
        if kind == "queue"
        else "The repair gives the task a made-up name, so that you see the jobs and can move them to their task."
    )
    return Finding(
        check="dangling_jobs",
        severity=Severity.ERROR,
        seen=f"{jobs}: the row of the {kind} was deleted",
        meaning=f"No worker ever claims such a job, and it never fails. {outcome}",
        remedies=(FIX,),
        repair=repair,
        facts=facts,
    )


def _renaming(subject: Subject, number: int) -> str:
    schema = subject.schema
    return (
        f"update {schema}._private_jobs set task_id = (select id from {schema}._private_tasks where identifier = "  # noqa: S608 - to be read, and run by hand
        f"'<task>') where task_id = {number};"
    )


def check_failed(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for jobs that failed for good."""
    rows = yield checks.failed_jobs()
    number = sum(count for _, count in rows)
    if not number:
        return [
            Finding(check="failed_jobs", severity=Severity.OK, seen="no job has failed for good", facts={"jobs": 0})
        ]
    tasks = listed([f"{task} ({count:,})" for task, count in rows])
    return [
        Finding(
            check="failed_jobs",
            severity=Severity.NOTICE,
            seen=f"{counted(number, 'job')} failed for good: {tasks}",
            meaning=(
                "You can let them run again, or delete them. Workers delete failed jobs of their own tasks after "
                "`terminal_record_retention`."
            ),
            remedies=("ferryman jobs list --state failed", "ferryman cleanup delete-permafailed-jobs"),
            facts={"jobs": number, "by_task": [{"task": task, "jobs": count} for task, count in rows[:100]]},
        )
    ]


def check_old_failed(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for old failed jobs that no worker deletes, because none has their task."""
    limit = subject.limits.failed_for
    rows = yield checks.old_failed_jobs(limit.total_seconds())
    number = sum(count for _, count in rows)
    if not number:
        seen = "no old failed job lacks a worker that deletes it"
        return [Finding(check="old_failed_jobs", severity=Severity.OK, seen=seen, facts={"jobs": 0})]
    tasks = listed([f"{task} ({count:,})" for task, count in rows])
    age = f"{limit.total_seconds():.0f}s" if limit.seconds else f"{limit.days}d"
    return [
        Finding(
            check="old_failed_jobs",
            severity=Severity.NOTICE,
            seen=f"{counted(number, 'job')} failed more than {age} ago: {tasks}",
            meaning="No registered worker of Ferryman has these tasks, so no worker deletes the jobs.",
            remedies=(f"ferryman cleanup delete-permafailed-jobs --older-than {age}",),
            facts={"jobs": number, "by_task": [{"task": task, "jobs": count} for task, count in rows[:100]]},
        )
    ]


def check_poisoned(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for poisoned jobs, which were failed for good because they killed their workers."""
    rows = yield checks.poisoned()
    if not rows:
        return [
            Finding(
                check="poisoned_jobs", severity=Severity.OK, seen="no job has killed its workers", facts={"jobs": 0}
            )
        ]
    number = rows[0][4]
    newest = rows[0][0]
    jobs = listed(
        [f"{job_id} ({task}, crashed {counted(times, 'time')})" for job_id, task, _, times, _ in rows], number
    )
    return [
        Finding(
            check="poisoned_jobs",
            severity=Severity.WARNING,
            seen=f"{counted(number, 'job')} failed for good after crashing too often: {jobs}",
            meaning="Such a job kills the process that runs it, for example because memory runs out.",
            remedies=(f"ferryman jobs show {newest}", f"ferryman jobs retry {newest}"),
            facts={"jobs": number, "job_ids": [row[0] for row in rows]},
        )
    ]


def check_odd_times(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for jobs that are due at times that are never reached, such as `infinity`."""
    rows = yield checks.odd_times()
    findings = [_odd_time(*row) for row in rows]
    return findings or [
        Finding(check="odd_times", severity=Severity.OK, seen="no job has a time that is never reached")
    ]


def _odd_time(name: str, number: int, job_ids: Sequence[int]) -> Finding:
    jobs = f"{counted(number, 'job')} ({listed(job_ids, number)})"
    if name == "locked_at":
        severity, seen = Severity.WARNING, f"{jobs} locked with a time in the future"
        meaning = (
            "Such a lock never expires. A sweep of its worker releases it, if PostgreSQL can calculate with the time."
        )
        remedies: tuple[str, ...] = (f"ferryman jobs show {job_ids[0]}",)
    else:
        severity, seen = Severity.NOTICE, f"{jobs} with a run_at that is never reached"
        meaning = "They wait for ever. If that is not intended, reschedule them."
        remedies = (f"ferryman jobs reschedule {job_ids[0]} --run-at now",)
    return Finding(
        check="odd_times",
        severity=severity,
        seen=seen,
        meaning=meaning,
        remedies=remedies,
        facts={"column": name, "jobs": number, "job_ids": list(job_ids)},
    )


def check_leftovers(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for records of claims that are over. Workers delete them within an hour."""
    [(marks, progress)] = yield checks.leftovers()
    has_some = bool(marks or progress)
    return [
        Finding(
            check="leftovers",
            severity=Severity.NOTICE if has_some else Severity.OK,
            seen=(
                f"{counted(marks, 'start mark')} and {counted(progress, 'report')} of progress of claims that are over"
                if has_some
                else "no record of a claim that is over"
            ),
            meaning="They do no harm. A worker with recovery deletes them within an hour." if has_some else None,
            remedies=(FIX,) if has_some else (),
            repair=Repair.LEFTOVERS if has_some else None,
            facts={"start_marks": marks, "progress": progress},
        )
    ]
