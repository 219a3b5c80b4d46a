"""Checks of the server: its version, a pooler in front of it, and resources that run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.steps import FirstProcess
from ferryman.health.report import Finding, Severity
from ferryman.health.wording import amount, counted, percent, span
from ferryman.queries import checks
from ferryman.queries.settle import PATIENCE
from ferryman.schema.contract import OLDEST_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferryman.database.steps import Row, Steps
    from ferryman.health.subject import Subject
    from ferryman.health.thresholds import HealthLimits

_MAJOR = 10_000
NEWEST_TESTED = 18
CHECKS_MOVED_ROWS = {14: 20, 15: 15, 16: 11, 17: 7}
"""By major, the first minor with PostgreSQL's commit "Add missing EPQ recheck for TID Scan". 18.0 has it."""
RETURNS_NEW_ROWS = {14: 9, 15: 3}
"""By major, the first minor seen to return the newest version of a claimed row. 14.5 and 15.1 return older ones."""
NEARLY_ALL = 0.95
MUCH_WORSE = 10
PATIENCE_MS = int(PATIENCE.removesuffix("ms"))
SHORT_DEADLOCK_TIMEOUT_MS = 2 * PATIENCE_MS
"""A producer may already be waiting when a settlement starts to wait for it, so it looks for deadlocks sooner."""


def check_server(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Check that the server takes writes and has a tested version."""
    [(version, is_standby)] = yield checks.server()
    name = f"PostgreSQL {version // _MAJOR}.{version % _MAJOR}"
    severity, meaning = Severity.OK, None
    if is_standby:
        severity = Severity.ERROR
        meaning = "A standby takes no writes: connect to the primary."
    elif version < OLDEST_SERVER:
        severity = Severity.ERROR
        meaning = f"Ferryman needs PostgreSQL {OLDEST_SERVER // _MAJOR} or newer: upgrade the server."
    elif version // _MAJOR > NEWEST_TESTED:
        severity = Severity.NOTICE
        meaning = f"Ferryman is tested with versions up to {NEWEST_TESTED}."
    else:
        severity, meaning = _judge_minor(*divmod(version, _MAJOR))
    seen = f"{name}, a standby" if is_standby else name
    facts = {"version": version, "is_standby": is_standby}
    return [Finding(check="server", severity=severity, seen=seen, meaning=meaning, facts=facts)]


def _judge_minor(major: int, minor: int) -> tuple[Severity, str | None]:
    """Judge a minor version of PostgreSQL by its known bugs that can harm a queue, fixed in newer ones."""
    advice = f"Update the server to {major}.{CHECKS_MOVED_ROWS.get(major, 0)} or newer."
    if minor < RETURNS_NEW_ROWS.get(major, 0):
        return Severity.WARNING, (
            "This minor of PostgreSQL has a fault: `update … where id = (select … for update skip locked) returning …` "
            "can return an old version of a row that another session has just changed. Node's Graphile Worker claims "
            "jobs in this way, so it can run a job with an old payload. Ferryman's workers claim jobs in another way. "
            f"{advice}"
        )
    if minor < CHECKS_MOVED_ROWS.get(major, 0):
        return Severity.NOTICE, (
            "This minor of PostgreSQL has a fault: a statement that finds a row by its ctid, and waits for a session "
            "that changes the row, continues with the new version and does not check the ctid again. Ferryman works on "
            "such servers and is tested on them; statements of other programs may go wrong. "
            f"{advice}"
        )
    return Severity.OK, None


def check_pooler(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Check whether this connection leads to the server itself."""
    [(greeted_by,)] = yield FirstProcess()
    [(served_by,)] = yield checks.BACKEND_PID
    facts = {"has_pooler": greeted_by != served_by}
    if greeted_by == served_by:
        return [Finding(check="pooler", severity=Severity.OK, seen="connected to the server itself", facts=facts)]
    return [
        Finding(
            check="pooler",
            severity=Severity.NOTICE,
            seen="a pooler such as PgBouncer answers in place of the server",
            meaning=(
                "Workers on this address cannot listen for new jobs, so they find them by polling, and a dead worker "
                "is found only by its missing heartbeats. For programs that only add jobs, a pooler is fine."
            ),
            remedies=(
                "ferryman worker … --database-url <address of the server itself>",
                "ferryman worker … --no-listen",
            ),
            facts=facts,
        )
    ]


def check_connections(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check how many connections are left."""
    [(used, limit, used_here, limit_here)] = yield checks.connections()
    parts = [(used, limit, "the server")]
    if limit_here is not None:
        parts.append((used_here, limit_here, "this database"))
    number, most, place = max(parts, key=lambda part: part[0] / max(part[1], 1))
    share = number / max(most, 1)
    severity = _graded(share, subject.limits.connections_used, NEARLY_ALL)
    finding = Finding(
        check="connections",
        severity=severity,
        seen=f"{number:,} of {counted(most, 'connection')} to {place} taken ({percent(share)})",
        meaning=(
            None
            if severity is Severity.OK
            else "When none is left, workers cannot reconnect and jobs cannot be added. Give workers a lower "
            "--max-connections, put a pooler in front of producers, or raise max_connections."
        ),
        remedies=(
            ()
            if severity is Severity.OK
            else ("select usename, application_name, count(*) from pg_stat_activity group by 1, 2 order by 3 desc;",)
        ),
        facts={"used": used, "limit": limit, "used_by_database": used_here, "limit_of_database": limit_here},
    )
    return [finding]


def check_notifications(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check the queue of notifications. When it is full, NOTIFY fails, and adding jobs with it."""
    [(share,)] = yield checks.notifications()
    severity = _graded(share, subject.limits.notifications_used, NEARLY_ALL)
    meaning, remedies = None, ()  # type: str | None, tuple[str, ...]
    if severity is not Severity.OK:
        meaning = (
            "A session listens, and has had a transaction open since before these notifications. When the queue is "
            "full, adding jobs fails. End that transaction."
        )
        remedies = ("select pid, application_name, state, xact_start from pg_stat_activity order by xact_start;",)
    return [
        Finding(
            check="notifications",
            severity=severity,
            seen=f"the queue of notifications is {'empty' if share == 0 else percent(share) + ' full'}",
            meaning=meaning,
            remedies=remedies,
            facts={"used": share},
        )
    ]


def check_deadlocks(_subject: Subject) -> Steps[Iterable[Finding]]:
    """Check that a settlement gives up waiting for a row before PostgreSQL looks for deadlocks."""
    rows = yield checks.deadlocks()
    settings = [{"place": place, "milliseconds": milliseconds} for place, milliseconds, _ in rows]
    short = [row for row in rows if row[1] <= SHORT_DEADLOCK_TIMEOUT_MS]
    if not short:
        delays = ", ".join(f"{milliseconds:,g} ms for {place}" for place, milliseconds, _ in rows)
        return [
            Finding(
                check="deadlock_timeout",
                severity=Severity.OK,
                seen=f"PostgreSQL looks for deadlocks after {delays}",
                facts={"settings": settings},
            )
        ]
    return [_short_deadlock_timeout(row, settings) for row in short]


def _short_deadlock_timeout(row: Row, settings: Sequence[object]) -> Finding:
    place, milliseconds, remedy = row
    is_certain = milliseconds <= PATIENCE_MS
    return Finding(
        check="deadlock_timeout",
        severity=Severity.WARNING if is_certain else Severity.NOTICE,
        seen=f"PostgreSQL looks for deadlocks after {milliseconds:g} ms for {place}",
        meaning=(
            f"A worker that settles jobs waits up to {PATIENCE_MS} ms for a row that another transaction has locked. "
            + ("That is long enough" if is_certain else "That may be long enough")
            + " to be found in a deadlock with a transaction that adds jobs by their keys. PostgreSQL then ends one of "
            "the two: the worker settles its jobs again, but the transaction of an application fails with 40P01. Set "
            "deadlock_timeout to 1 s, which is the default."
        ),
        remedies=(remedy,),
        facts={"place": place, "milliseconds": milliseconds, "settings": settings},
    )


def check_horizon(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check what keeps dead rows from being removed. Each dead row that a claim must skip slows it down."""
    rows = yield checks.horizon()
    [(hidden,)] = yield checks.hidden_sessions()
    findings = [_pin(row, severity) for row in rows if (severity := _pin_severity(row, subject.limits)) is not None]
    if not findings:
        findings = [_unpinned(rows)]
    if hidden:
        findings.append(_hidden(hidden))
    return findings


def _pin_severity(row: Row, limits: HealthLimits) -> Severity | None:
    """Return how serious it is, or None if it is not: on a busy system, many transactions can pass within a minute."""
    state, seconds, transactions = row[4], row[6], row[7]
    most = limits.pinned_transactions
    if seconds is None:
        # A standby or a slot. One that is in use moves on, and only the count of transactions shows how slowly.
        most *= 1 if state == "inactive" else MUCH_WORSE
        if transactions < most:
            return None
    elif seconds < limits.pinned_for.total_seconds():
        return None
    return Severity.ERROR if transactions >= most * MUCH_WORSE else Severity.WARNING


def _pin(row: Row, severity: Severity) -> Finding:
    kind, name, role, application, state, database, seconds, transactions = row
    parts = [state, f"of {role}" if role else None, application or None, f"in {database}" if database else None]
    details = ", ".join(part for part in parts if part)
    age = f"for {span(seconds)} and " if seconds is not None else "for "
    return Finding(
        check="pinned_rows",
        severity=severity,
        seen=f"{kind} {name} ({details}) keeps dead rows {age}{counted(transactions, 'transaction')}",
        meaning="Vacuum cannot remove the rows of jobs that were completed since, and every claim must skip them.",
        remedies=(_ending(kind, name),),
        facts={
            "kind": kind,
            "name": name,
            "role": role,
            "application": application,
            "state": state,
            "database": database,
            "seconds": seconds,
            "transactions": transactions,
        },
    )


def _ending(kind: str, name: str) -> str:
    """Return the statement that ends whatever keeps dead rows from being removed."""
    quoted = "'" + name.replace("'", "''") + "'"
    match kind:
        case "prepared transaction":
            return f"rollback prepared {quoted};"
        case "replication slot":
            return f"select pg_drop_replication_slot({quoted});"
        case _:
            return f"select pg_terminate_backend({name});"


def _unpinned(rows: Sequence[Row]) -> Finding:
    oldest = max((row[6] for row in rows if row[6] is not None), default=0.0)
    most = max((row[7] for row in rows), default=0)
    seen = f"the oldest transaction is {span(oldest)} old" if rows else "no transaction holds rows back"
    return Finding(
        check="pinned_rows", severity=Severity.OK, seen=seen, facts={"seconds": oldest, "transactions": most}
    )


def check_slots(subject: Subject) -> Steps[Iterable[Finding]]:
    """Check for logical slots that are far behind. They keep no rows of jobs, but WAL, which can fill the disk."""
    rows = yield checks.slots()
    findings = [_slot(row) for row in rows if _is_far_behind(row, subject.limits)]
    seen = f"{counted(len(rows), 'logical slot')}, none far behind" if rows else "no logical slot"
    return findings or [Finding(check="replication_slots", severity=Severity.OK, seen=seen, facts={"slots": len(rows)})]


def _is_far_behind(row: Row, limits: HealthLimits) -> bool:
    _, _, is_active, _, transactions, behind = row
    is_forgotten = not is_active and (transactions or 0) >= limits.pinned_transactions
    return is_forgotten or (behind or 0) >= limits.retained_wal


def _slot(row: Row) -> Finding:
    name, plugin, is_active, database, transactions, behind = row
    state = "active" if is_active else "inactive"
    quoted = "'" + name.replace("'", "''") + "'"
    return Finding(
        check="replication_slots",
        severity=Severity.NOTICE,
        seen=f"replication slot {name} ({state}, {plugin}, in {database}) is {amount(behind or 0)} of WAL and "
        f"{counted(transactions or 0, 'transaction')} behind",
        meaning=(
            "It does not keep dead rows of jobs. The server keeps WAL for it, until the disk is full. Start its "
            "consumer again, or find out why it is slow. Only if the consumer is gone for good, drop the slot with "
            f"pg_drop_replication_slot({quoted}). The changes that the consumer has not read are then lost."
        ),
        remedies=(f"select * from pg_replication_slots where slot_name = {quoted};",),  # noqa: S608 - to be read
        facts={
            "name": name,
            "plugin": plugin,
            "is_active": is_active,
            "database": database,
            "transactions": transactions,
            "retained_wal": behind,
        },
    )


def _hidden(number: int) -> Finding:
    return Finding(
        check="pinned_rows",
        severity=Severity.NOTICE,
        seen=f"{counted(number, 'session')} of other roles could not be checked",
        meaning="One of them may hold rows back without being listed here.",
        remedies=("grant pg_read_all_stats to <this role>;",),
        facts={"hidden": number},
    )


def _graded(share: float, warning: float, error: float) -> Severity:
    if share >= max(warning, error):
        return Severity.ERROR
    return Severity.WARNING if share >= warning else Severity.OK
