"""What statements read, counted in buffers, which do not depend on how busy the machine is."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from ferryman.database.identifiers import SchemaName
from ferryman.database.lazy_rows import NamedRows
from ferryman.database.statements import Style, load_statement
from ferryman.queries.settle import complete_claims
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferryman.database.steps import Call
    from ferryman.worker.claiming.claims import Claim

SCHEMA = SchemaName("graphile_worker")
JOBS = "graphile_worker._private_jobs"
QUEUES = "graphile_worker._private_job_queues"
WORKER = Identity()


@dataclass
class Reading:
    """What one run of a statement read."""

    statement: str
    buffers: int
    scans: frozenset[str]
    """Each index that its plan reads through, and each table that it reads without one."""


@dataclass
class Session:
    """A connection with the settings of a worker's, which keeps the plan of each statement as a worker does.

    It stands in for the connection of a `Claimer`.
    """

    cursor: psycopg.Cursor
    readings: list[Reading] = field(default_factory=list)

    async def fetch(self, call: Call) -> Sequence[Any]:
        """Run a statement, and measure it."""
        self.readings.append(self.measure(call))
        return self.run(call)

    def run(self, call: Call) -> Sequence[Any]:
        """Run a statement: planned at its first run, for any parameters, and kept."""
        cursor = self.cursor.execute(self._execution(call))
        names = [column.name for column in cursor.description or ()]
        return NamedRows(names, cursor.fetchall())

    def measure(self, call: Call) -> Reading:
        """What a statement reads with the plan that it has; its effect is taken back."""
        execution = self._execution(call)
        with self.cursor.connection.transaction(force_rollback=True):
            [(explained,)] = self.cursor.execute(f"explain (analyze, buffers, format json) {execution}").fetchall()
        plan = explained[0]["Plan"]
        return Reading(
            call.statement.name, plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], frozenset(_scans(plan))
        )

    def settle(self, claims: Sequence[Claim]) -> None:
        """Complete them."""
        if claims:
            done = [(claim.job_id, claim.token, claim.queue_id or 0) for claim in claims]
            self.run(complete_claims(WORKER.id, done))

    def execute(self, query: str) -> None:
        """Anything else."""
        self.cursor.execute(query)

    def forget_plans(self) -> None:
        """Plan anew at the next run."""
        self.cursor.execute("deallocate all")

    def _execution(self, call: Call) -> str:
        name = call.statement.name
        known = "select count(*) from pg_prepared_statements where name = $1"
        if self.cursor.execute(known, [name]).fetchone() == (0,):
            self.cursor.execute(f"prepare {name} as {call.statement.text(SCHEMA, Style.NUMBERED)}")
        values = (sql.Literal(value).as_string(self.cursor) for value in call.statement.ordered(call.parameters))
        return f"execute {name}({', '.join(values)})"


@contextmanager
def session(dsn: str) -> Iterator[Session]:
    """A session on a database of its own, with the tasks `mine` (1) and `other` (2)."""
    options = {"autocommit": True, "prepare_threshold": None, "cursor_factory": psycopg.RawCursor}
    with psycopg.connect(dsn, **options) as connection:
        cursor = connection.cursor()
        settings = load_statement("ferryman.database", "steady_plans").text(SCHEMA, Style.NUMBERED)
        cursor.execute(settings, [connection.info.backend_pid])
        cursor.execute("insert into graphile_worker._private_tasks (identifier) values ('mine'), ('other')")
        yield Session(cursor)


async def claimer_on(session: Session) -> Claimer:
    """The real one, for the task `mine`."""
    claimer = Claimer(session, WORKER, ["mine"], forbidden_flags=(), use_local_time=False)
    await claimer.register()
    session.readings.clear()
    return claimer


def drain_and_vacuum(session: Session) -> None:
    """Leave tables behind that the planner takes for empty, and indexes that are not."""
    session.execute(f"insert into {QUEUES} (queue_name) select 'old' || n from generate_series(1, 1000) as n")
    session.execute(f"insert into {JOBS} (task_id) select 1 from generate_series(1, 5000)")
    session.execute(f"insert into {JOBS} (task_id, job_queue_id) select 1, n from generate_series(1, 5000) as n")
    session.execute(f"delete from {JOBS}")
    session.execute(f"delete from {QUEUES}")
    session.execute(f"vacuum analyze {JOBS}")
    session.execute(f"vacuum analyze {QUEUES}")


def _scans(plan: dict[str, Any]) -> Iterator[str]:
    if "Index Name" in plan:
        yield plan["Index Name"]
    elif plan["Node Type"] == "Seq Scan":
        yield f"all of {plan['Relation Name']}"
    for part in plan.get("Plans", ()):
        yield from _scans(part)
