"""Jobs that will never run: they refer to nothing, failed for good, or killed their workers."""

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
    """Jobs whose task or queue has no row."""
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
            seen=f"{jobs}: the name of the task is not known any more",
            meaning="An earlier repair gave the task a made-up name. Say for which task the jobs were.",
            remedies=tuple(_renaming(subject, lost) for lost in numbers),
            facts=facts,
        )
    repair = Repair.DANGLING_QUEUES if kind == "queue" else Repair.DANGLING_TASKS
    outcome = (
        "A repair gives them one with a made-up name, and they run."
        if kind == "queue"
        else "A repair gives it a made-up name, so that the jobs can be seen and moved to their task."
    )
    return Finding(
        check="dangling_jobs",
        severity=Severity.ERROR,
        seen=f"{jobs}: the {kind} was deleted under them",
        meaning=f"No worker ever sees such a job, and it never fails. {outcome}",
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
    """Jobs that are out of attempts."""
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
                "Somebody may let them run again or delete them. Workers delete those of their own tasks after "
                "`terminal_record_retention`."
            ),
            remedies=("ferryman jobs list --state failed", "ferryman cleanup delete-permafailed-jobs"),
            facts={"jobs": number, "by_task": [{"task": task, "jobs": count} for task, count in rows[:100]]},
        )
    ]


def check_old_failed(subject: Subject) -> Steps[Iterable[Finding]]:
    """Failed jobs that workers would have deleted, if they had their tasks."""
    limit = subject.limits.failed_for
    rows = yield checks.old_failed_jobs(limit.total_seconds())
    number = sum(count for _, count in rows)
    if not number:
        seen = "no old failed job is left to people"
        return [Finding(check="old_failed_jobs", severity=Severity.OK, seen=seen, facts={"jobs": 0})]
    tasks = listed([f"{task} ({count:,})" for task, count in rows])
    age = f"{limit.total_seconds():.0f}s" if limit.seconds else f"{limit.days}d"
    return [
        Finding(
            check="old_failed_jobs",
            severity=Severity.NOTICE,
            seen=f"{counted(number, 'job')} failed more than {age} ago: {tasks}",
            meaning="No registered worker of Ferryman's has these tasks, so no worker ever deletes the jobs.",
            remedies=(f"ferryman cleanup delete-permafailed-jobs --older-than {age}",),
            facts={"jobs": number, "by_task": [{"task": task, "jobs": count} for task, count in rows[:100]]},
        )
    ]


def check_poisoned(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Jobs that were stopped because worker after worker died of them."""
    rows = yield checks.poisoned()
    if not rows:
        return [
            Finding(
                check="poisoned_jobs", severity=Severity.OK, seen="no job has killed its workers", facts={"jobs": 0}
            )
        ]
    number = rows[0][4]
    newest = rows[0][0]
    told = listed(
        [f"{job_id} ({task}, crashed {counted(times, 'time')})" for job_id, task, _, times, _ in rows], number
    )
    return [
        Finding(
            check="poisoned_jobs",
            severity=Severity.WARNING,
            seen=f"{counted(number, 'job')} failed for good because workers died of it: {told}",
            meaning="Something in these jobs ends the process that runs them, such as lack of memory.",
            remedies=(f"ferryman jobs show {newest}", f"ferryman jobs retry {newest}"),
            facts={"jobs": number, "job_ids": [row[0] for row in rows]},
        )
    ]


def check_odd_times(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Jobs whose times nobody can wait for."""
    rows = yield checks.odd_times()
    findings = [_odd_time(*row) for row in rows]
    return findings or [
        Finding(check="odd_times", severity=Severity.OK, seen="every job has times that can be reached")
    ]


def _odd_time(name: str, number: int, job_ids: Sequence[int]) -> Finding:
    jobs = f"{counted(number, 'job')} ({listed(job_ids, number)})"
    if name == "locked_at":
        severity, seen = Severity.WARNING, f"{jobs} locked with a time in the future"
        meaning = (
            "Such a lock never grows old. A sweep of its worker takes it off, if PostgreSQL can work with the time."
        )
        remedies: tuple[str, ...] = (f"ferryman jobs show {job_ids[0]}",)
    else:
        severity, seen = Severity.NOTICE, f"{jobs} with a run_at that is never reached"
        meaning = "They wait for ever. If that is not meant, give them another time."
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
    """Records of claims that are over. Workers remove them within the hour."""
    [(marks, progress)] = yield checks.leftovers()
    has_some = bool(marks or progress)
    return [
        Finding(
            check="leftovers",
            severity=Severity.NOTICE if has_some else Severity.OK,
            seen=(
                f"{counted(marks, 'start mark')} and {counted(progress, 'report')} of progress outlived their claims"
                if has_some
                else "no record of a claim that is over"
            ),
            meaning="They do no harm. A worker with recovery removes them within the hour." if has_some else None,
            remedies=(FIX,) if has_some else (),
            repair=Repair.LEFTOVERS if has_some else None,
            facts={"start_marks": marks, "progress": progress},
        )
    ]
