"""Checks of workers: silent ones, the locks that they hold, and jobs that wait for one."""

from __future__ import annotations

import shlex
from itertools import groupby
from typing import TYPE_CHECKING

from ferryman.health.job_checks import FIX
from ferryman.health.report import Finding, Repair, Severity
from ferryman.health.wording import counted, listed, span
from ferryman.queries import checks
from ferryman.queries.beat import LockHolder, list_lock_holders
from ferryman.queries.sweep import find_orphan_holders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ferryman.database.steps import Row, Steps
    from ferryman.health.subject import Subject

RECOVER = "ferryman workers recover"
OURS = "ferryman-"
NODE_LOCK_SECONDS = 4 * 3600.0
"""After this long, workers of Node release locks, their own or not. No threshold makes it shorter."""
HELD_SECONDS = 60.0
REPAIRABLE = ("nobody", "gone", "expired")


def check_wedged(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for queues that are blocked because their lock was never released."""
    rows = yield checks.wedged(subject.schema.name, silent_for=subject.silent_for, locked_for=NODE_LOCK_SECONDS)
    findings = [_wedged(subject, fate, list(group)) for fate, group in groupby(rows, key=lambda row: str(row[2]))]
    return findings or [Finding(check="wedged_queues", severity=Severity.OK, seen="no queue is locked without a job")]


def _wedged(subject: Subject, fate: str, rows: Sequence[Row]) -> Finding:
    number = rows[0][5]
    names = listed([f"{name} (by {holder or 'nobody'})" for name, holder, *_ in rows], number)
    severity, meaning, remedies = _verdict(subject, fate, rows)
    return Finding(
        check="wedged_queues",
        severity=severity,
        seen=f"{counted(number, 'queue')} locked by a worker that has no job in it: {names}",
        meaning=meaning,
        remedies=remedies,
        repair=Repair.WEDGED_QUEUES if fate in REPAIRABLE else None,
        facts={
            "fate": fate,
            "queues": number,
            "locks": [{"queue": row[0], "worker_id": row[1], "seconds": row[3]} for row in rows],
        },
    )


def _verdict(subject: Subject, fate: str, rows: Sequence[Row]) -> tuple[Severity, str, tuple[str, ...]]:
    by_hand = tuple(row[4] for row in rows)
    if fate in REPAIRABLE:
        return Severity.ERROR, "Their jobs wait for a worker that is gone.", (FIX,)
    if fate == "silent":
        return Severity.WARNING, "The worker sends no heartbeats. A sweep frees what it holds.", (RECOVER,)
    if fate == "alive" and all((row[1] or "").startswith(OURS) for row in rows):
        is_long = any((row[3] or 0) > subject.locked_for for row in rows)
        meaning = "The row of the job was deleted while it ran. Its worker is alive, and frees the queue at its end."
        return Severity.WARNING if is_long else Severity.NOTICE, meaning, ()
    meaning = (
        "The row of the job was deleted, or another program completed it. If the worker still runs the job, wait. "
        "Otherwise the queue is blocked until its lock is 4 hours old. If the job has certainly ended, free the queue."
    )
    return Severity.WARNING, meaning, by_hand


def check_waiting(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for due jobs that no worker claims."""
    rows = yield checks.waiting(waiting_for=subject.waiting_for, silent_for=subject.silent_for)
    groups = {fate: [row for row in rows if _fate(row) == fate] for fate in _WAITING_FOR}
    findings = [_waiting(fate, group) for fate, group in groups.items() if group]
    seen = f"no job has been due for more than {span(subject.waiting_for)}"
    return findings or [Finding(check="waiting_jobs", severity=Severity.OK, seen=seen, facts={"jobs": 0})]


def _fate(row: Row) -> str:
    """Return why due jobs of this task may wait."""
    _, _, _, is_known, alive, has_strangers = row
    if is_known:
        return "busy"
    if has_strangers:
        return "unregistered"
    return "unknown task" if alive else "no worker"


def _waiting(fate: str, rows: Sequence[Row]) -> Finding:
    severity, why, meaning, remedies = _WAITING_FOR[fate]
    number = sum(row[1] for row in rows)
    tasks = listed([f"{task} ({count:,})" for task, count, *_ in rows])
    seconds = max(row[2] for row in rows)
    return Finding(
        check="waiting_jobs",
        severity=severity,
        seen=f"{counted(number, 'job')} waiting for up to {span(seconds)}, {why}: {tasks}",
        meaning=meaning,
        remedies=remedies,
        facts={
            "fate": fate,
            "jobs": number,
            "seconds": seconds,
            "workers": rows[0][4],
            "by_task": [{"task": row[0], "jobs": row[1], "seconds": row[2]} for row in rows[:100]],
        },
    )


_WAITING_FOR: Mapping[str, tuple[Severity, str, str, tuple[str, ...]]] = {
    "no worker": (
        Severity.ERROR,
        "and no worker is running",
        "Nothing runs these jobs. Start a worker that has their tasks.",
        ("ferryman workers list", "ferryman worker <module>"),
    ),
    "unknown task": (
        Severity.ERROR,
        "and no running worker has the task",
        "Deploy a worker that has the task. If the jobs were added under a wrong name, delete them.",
        ("ferryman workers list", "ferryman jobs list --state ready", "ferryman jobs complete <id>"),
    ),
    "unregistered": (
        Severity.NOTICE,
        "and no registered worker has the task",
        "Workers that do not register, such as Node's, hold jobs here. It is unknown whether they have these tasks.",
        ("ferryman jobs list --state ready",),
    ),
    "busy": (
        Severity.NOTICE,
        "though workers have the task",
        "The workers have more jobs than they can run, or skip these because of a forbidden flag.",
        ("ferryman workers list",),
    ),
}


def check_silent_workers(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for registered workers whose heartbeats have stopped."""
    rows = yield checks.silent_workers(subject.silent_for)
    if not rows:
        return [Finding(check="workers", severity=Severity.OK, seen="no registered worker is silent")]
    held = sum(row[2] for row in rows)
    silent = listed([f"{worker_id} (for {span(silence)})" for worker_id, silence, *_ in rows])
    return [
        Finding(
            check="workers",
            severity=Severity.WARNING,
            seen=f"{counted(len(rows), 'worker')} silent, holding {counted(held, 'job')}: {silent}",
            meaning="They are dead or hung, and no worker with recovery is running that could recover their jobs.",
            remedies=(f"{RECOVER} --dry-run", RECOVER),
            facts={
                "silent": [{"worker_id": row[0], "seconds": row[1], "jobs": row[2]} for row in rows],
                "registered": rows[0][3],
            },
        )
    ]


def check_recovery_locks(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for sessions that hold an advisory lock of recovery and should not."""
    rows = yield list_lock_holders(subject.schema)
    findings = [_held(holder) for holder in map(LockHolder._make, rows) if _is_stranger(holder)]
    seen = "the locks of sweeps and of the watcher are free, or held by workers"
    return findings or [Finding(check="recovery_locks", severity=Severity.OK, seen=seen)]


def _is_stranger(holder: LockHolder) -> bool:
    """True if this session should not hold the lock.

    A sweep holds it in a short transaction; the worker that watches the others holds it in its registered session.
    """
    is_long = holder.seconds is None or holder.seconds > HELD_SECONDS
    if holder.lock == "watch":
        return is_long and not holder.is_worker
    return is_long or not holder.in_transaction


def _held(holder: LockHolder) -> Finding:
    lock, meaning = {
        "sweep": ("the advisory lock of sweeps", "No worker can recover the jobs of dead workers meanwhile."),
        "watch": (
            "the advisory lock of the watcher",
            "No worker can watch the sessions of others meanwhile; dead workers are found only by their silence.",
        ),
    }[holder.lock]
    since = "" if holder.seconds is None else f" for {span(holder.seconds)}"
    return Finding(
        check="recovery_locks",
        severity=Severity.ERROR,
        seen=f"{lock} is held{since} by process {holder.pid} of the server (application {holder.application_name!r}, "
        f"role {holder.role!r})",
        meaning=meaning,
        remedies=(f"select pg_terminate_backend({holder.pid});",),
        facts={
            "lock": holder.lock,
            "pid": holder.pid,
            "application_name": holder.application_name,
            "role": holder.role,
            "seconds": holder.seconds,
        },
    )


def check_long_locks(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for jobs that are locked for longer than Node allows."""
    rows = yield checks.long_locks(locked_for=subject.locked_for, silent_for=subject.silent_for)
    limit = span(subject.locked_for)
    if not rows:
        return [Finding(check="long_locks", severity=Severity.OK, seen=f"no job is locked for more than {limit}")]
    return [_long_lock(row) for row in rows]


def check_unregistered_locks(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for jobs of unregistered workers, whose heartbeats cannot show whether they are alive."""
    rows = yield find_orphan_holders(
        threshold=subject.silent_for, unregistered_timeout=None, multiplier=1, flags=(), named=None
    )
    # Jobs that are locked for longer are reported by the check above.
    findings = [_unregistered(*row) for row in rows if row[-1] is None or row[-1] <= subject.locked_for]
    seen = "no worker that is not registered has held a job for long"
    return findings or [Finding(check="unregistered_locks", severity=Severity.OK, seen=seen)]


def _unregistered(
    holder: str,
    was_registered: bool,
    _reason: str,
    _prefetches: bool | None,
    _policy: str | None,
    number: int,
    job_ids: Sequence[int],
    seconds: float | None,
) -> Finding:
    claimed = (
        "and its lock has a time that never expires"
        if seconds is None
        else (f"and has claimed nothing for {span(seconds)}")
    )
    by_hand = f"{RECOVER} --worker {shlex.quote(holder)}"
    if was_registered:
        severity, remedies = Severity.WARNING, (RECOVER,)
        meaning = "Its row is gone, and no worker with recovery is running that could recover its jobs."
    else:
        severity, remedies = Severity.NOTICE, (by_hand,)
        meaning = (
            "It never registered: it is Node's, or runs without recovery. So it is unknown whether it is alive, and "
            "its jobs stay locked, unless workers of Node free them after 4 hours. If it is certainly dead, recover "
            "its jobs. unregistered_lock_timeout lets workers do so."
        )
    return Finding(
        check="unregistered_locks",
        severity=severity,
        seen=f"{holder} is not registered, holds {counted(number, 'job')} ({listed(job_ids, number)}) {claimed}",
        meaning=meaning,
        remedies=remedies,
        facts={"worker_id": holder, "jobs": number, "job_ids": list(job_ids), "seconds": seconds},
    )


def _long_lock(row: Row) -> Finding:
    holder, number, job_ids, seconds, is_alive = row
    meaning = (
        "The worker is alive, so the job takes long. Workers of Node release such a lock and run the job again."
        if is_alive
        else "It is unknown whether the worker is alive. Workers of Node release such a lock, if any run. If the "
        "worker is certainly dead, recover its jobs."
    )
    return Finding(
        check="long_locks",
        severity=Severity.NOTICE if is_alive else Severity.WARNING,
        seen=f"{holder or 'nobody'} has had {counted(number, 'job')} locked for up to {span(seconds)}: "
        f"{listed(job_ids, number)}",
        meaning=meaning,
        remedies=(f"{RECOVER} --worker {shlex.quote(holder)}",) if holder and not is_alive else (),
        facts={
            "worker_id": holder,
            "jobs": number,
            "job_ids": job_ids,
            "seconds": seconds,
            "is_alive": is_alive,
        },
    )
