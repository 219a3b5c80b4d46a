"""Statements that check the health of a queue and of its database, and that repair what can be repaired.

Each file says which columns come back. Most names say nothing by themselves, so callers import the folder:
`checks.server()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call
from ferryman.queries import query
from ferryman.queries.advisory_locks import SESSION_CLASS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.queries import Parameters

BACKEND_PID = Call(load_statement("ferryman.database", "backend_pid"))


@query
def settings() -> Parameters:
    """Set up the transaction of a check: read only, and without long waits."""
    return {}


@query
def access(schema_name: str, tables: Sequence[str]) -> Parameters:
    """Find out which tables exist, and whether this role may read them. Returns a row for each table that exists."""
    return {"name": schema_name, "tables": list(tables)}


@query
def server() -> Parameters:
    """Read the server's version, and whether it is a standby."""
    return {}


@query
def connections() -> Parameters:
    """Count connections, and how many are allowed."""
    return {}


@query
def horizon() -> Parameters:
    """List what keeps dead rows from being removed, the oldest first."""
    return {}


@query
def slots() -> Parameters:
    """List logical replication slots, the one that is furthest behind first."""
    return {}


@query
def hidden_sessions() -> Parameters:
    """Count the sessions that this role may not look into."""
    return {}


@query
def notifications() -> Parameters:
    """Read how full the queue of notifications is, from 0 to 1."""
    return {}


@query
def deadlocks() -> Parameters:
    """Read how long sessions wait before PostgreSQL looks for a deadlock, by role and database."""
    return {}


@query
def upkeep(schema_name: str, tables: Sequence[str]) -> Parameters:
    """Estimate how many rows of the busiest tables are dead. Returns a row for each table."""
    return {"name": schema_name, "tables": list(tables)}


@query
def sequences(schema_name: str) -> Parameters:
    """Read how many ids of tasks, queues and jobs are used up. Returns a row for each sequence."""
    return {"name": schema_name}


@query
def free_numbers() -> Parameters:
    """Find the longest range of unused ids, for tasks and for queues. Returns a row for each table that has one."""
    return {}


@query
def queues() -> Parameters:
    """Count named queues, and those that nothing uses."""
    return {}


@query
def tasks() -> Parameters:
    """Count tasks, and those that have no job."""
    return {}


@query
def key_index(schema_name: str) -> Parameters:
    """Read the state of the index of job keys. Returns a row; none without the table of jobs."""
    return {"name": schema_name}


@query
def keyless_jobs() -> Parameters:
    """Count jobs, and those that have no key."""
    return {}


@query
def tuning_settings() -> Parameters:
    """Set up the transaction that tunes: it does not wait for a lock for long."""
    return {}


@query
def tune_key_index() -> Parameters:
    """Let the index of job keys store each entry by itself."""
    return {}


@query
def untune_key_index() -> Parameters:
    """Let the index of job keys store equal entries once, as Graphile Worker made it."""
    return {}


@query
def dangling() -> Parameters:
    """Find jobs whose task or queue has no row."""
    return {}


@query
def mend_queues() -> Parameters:
    """Give queues that jobs refer to a row again. Runs under `lock_queues.sql`."""
    return {}


@query
def mend_tasks() -> Parameters:
    """Give tasks that jobs refer to a row again. Runs under `lock_tasks.sql`."""
    return {}


@query
def failed_jobs() -> Parameters:
    """Count jobs that failed for good, by task."""
    return {}


@query
def old_failed_jobs(failed_for: float) -> Parameters:
    """Count old failed jobs that workers will not delete. Returns a row for each task."""
    return {"failed_for": failed_for}


@query
def poisoned() -> Parameters:
    """Find jobs that failed for good because workers died of them, the newest first."""
    return {}


@query
def odd_times() -> Parameters:
    """Find jobs with times that are never reached."""
    return {}


@query
def leftovers() -> Parameters:
    """Count start marks and progress reports of claims that are over."""
    return {}


@query
def forget_leftovers() -> Parameters:
    """Delete start marks and progress reports of claims that are over."""
    return {}


@query
def wedged(schema_name: str, *, silent_for: float, locked_for: float) -> Parameters:
    """Find queues that are locked although their holder has no job in them. Returns some of each kind."""
    return {"name": schema_name, "silent_for": silent_for, "locked_for": locked_for}


@query
def free_wedged(*, silent_for: float, locked_for: float) -> Parameters:
    """Free queues whose holder is certainly gone. Returns their names."""
    return {"silent_for": silent_for, "locked_for": locked_for}


@query
def silent_workers(silent_for: float) -> Parameters:
    """Find registered workers that are silent. Returns a row for each one."""
    return {"silent_for": silent_for, "session_class": SESSION_CLASS}


@query
def waiting(*, waiting_for: float, silent_for: float) -> Parameters:
    """Find jobs that could have run long ago. Returns a row for each task."""
    return {"waiting_for": waiting_for, "silent_for": silent_for, "session_class": SESSION_CLASS}


@query
def long_locks(*, locked_for: float, silent_for: float) -> Parameters:
    """Find workers that have had jobs locked for long. Returns a row for each one."""
    return {"locked_for": locked_for, "silent_for": silent_for}
