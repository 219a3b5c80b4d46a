"""Connections whose statements are interleaved by hand.

Each actor of a history has lines. An errand on a line runs until it has ended, or until PostgreSQL says that it waits
for a lock: for a row that another line has locked, or at a gate. The next step of the history begins only then.

A gate is a place inside a statement where the history can stop it. The statements are not changed: this database has
another `now()` and an operator `bigint * interval` (see `stand_in_for`), and triggers fire before the first row of a
table is changed. Each gate asks for an advisory lock, which the conductor holds while the gate is closed.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from ferryman.database.connections import OwnAsyncConnection, OwnConnection
from ferryman.database.failures import sqlstate_of
from ferryman.database.identifiers import SchemaName
from ferryman.database.sessions import AsyncSession
from ferryman.database.statements import Style, load_statement
from tests.support.stand_ins import stand_in_for
from tests.support.waiting import DEADLINE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from typing import Self

    from ferryman.database.steps import Call, Row, Steps

SCHEMA = SchemaName("graphile_worker")
DEADLOCK = "40P01"
FIRST_LOOK_SECONDS = 0.002
LONGEST_LOOK_SECONDS = 0.02
GATES = """
    create schema model;
    create function model.pass(gate int) returns void volatile language plpgsql as $$
    declare
        line int := nullif(current_setting('model.line', true), '');
    begin
        if line is not null then
            perform pg_advisory_lock_shared(line, gate);
            perform pg_advisory_unlock_shared(line, gate);
        end if;
    end $$;
    create function model.times(number bigint, span interval) returns interval stable language plpgsql as $$
    begin
        perform model.pass(0);
        return cast(number as float8) operator(pg_catalog.*) span;
    end $$;
    create operator pg_catalog.* (leftarg = bigint, rightarg = interval, function = model.times);
    create function model.stop() returns trigger language plpgsql as $$
    begin
        perform model.pass(cast(tg_argv[0] as int));
        return null;
    end $$;
    create trigger stop before update or delete on graphile_worker._private_jobs
        for each statement execute function model.stop(1);
    create trigger stop before update on graphile_worker._private_job_queues
        for each statement execute function model.stop(2);
"""
GATED_NOW = """
    create function pg_catalog.now() returns timestamptz volatile language plpgsql as $$
    begin
        perform model.pass(0);
        return pg_catalog.real_now();
    end $$;
"""


class Gate(IntEnum):
    """Where a statement of ours can be stopped."""

    SNAPSHOT = 0
    """It has its snapshot, and has locked nothing yet."""
    JOBS = 1
    """It is about to change jobs."""
    QUEUES = 2
    """It is about to change queues."""


class Line:
    """One connection of an actor, opened when it is needed, which can stand in for a `TimedDatabase`."""

    def __init__(self, number: int, name: str, dsn: str) -> None:
        self.number = number
        self.name = name
        self.errand: Errand | None = None
        self._dsn = make_conninfo(dsn, options=f"-c model.line={number} -c deadlock_timeout=10ms")
        self._connection: OwnAsyncConnection | None = None

    @property
    def is_idle(self) -> bool:
        """True if no errand is under way."""
        return self.errand is None

    @property
    def connection(self) -> OwnAsyncConnection:
        """The connection, which is open."""
        assert self._connection is not None
        return self._connection

    @property
    def is_open(self) -> bool:
        """True if the connection was needed before now."""
        return self._connection is not None

    @property
    def pid(self) -> int:
        """The number of the server process."""
        return self.connection.info.backend_pid

    @property
    def has_transaction(self) -> bool:
        """True if a transaction is open, or has failed."""
        return self.is_open and self.connection.info.transaction_status != TransactionStatus.IDLE

    async def open(self) -> None:
        """Connect, with the settings of a worker's connections."""
        if self._connection is None:
            self._connection = await OwnAsyncConnection.connect(self._dsn, autocommit=True, prepare_threshold=0)
            settings = load_statement("ferryman.database", "steady_plans").text(SCHEMA, Style.NUMBERED)
            await self.query(settings, self.pid)

    async def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            await self._connection.close()

    async def query(self, text: str, *values: Any) -> Sequence[Row]:
        """Run any SQL."""
        return await self.connection.fetch(text, values or None)

    async def fetch(self, call: Call) -> Sequence[Row]:
        """Run one of our statements."""
        return await self._session().fetch(call)

    async def run(self, steps: Steps[Any]) -> Any:
        """Carry out one of our operations."""
        return await self._session().run(steps)

    def _session(self) -> AsyncSession:
        pool: Any = self
        return AsyncSession(lambda: pool, SCHEMA)

    async def getconn(self) -> OwnAsyncConnection:
        """Be the pool of a session."""
        return self.connection

    async def putconn(self, connection: OwnAsyncConnection) -> None:
        """Be the pool of a session."""


@dataclass(eq=False)
class Errand:
    """What is under way on a line.

    may_wait: it may wait for rows that others have locked, and be the victim of a deadlock
    then: gets what came of it, or None if it was the victim
    stops_at: a gate that is closed for it
    is_stopped: it stands at that gate
    """

    line: Line
    task: asyncio.Task[Any]
    may_wait: bool
    then: Callable[[Any], None]
    stops_at: Gate | None = None
    is_stopped: bool = False


class Conductor:
    """Lets errands run one step at a time. Its own connection holds the gates, and looks at what is committed."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._runner = asyncio.Runner()
        self._own = OwnConnection.connect(dsn, autocommit=True, prepare_threshold=0)
        self.script(GATES)
        self.script(stand_in_for("now", GATED_NOW))
        self.lines: list[Line] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()
        for line in self.lines:
            self._runner.run(line.close())
        self._runner.close()
        self._own.close()

    @property
    def errands(self) -> list[Errand]:
        """What is under way, in the order of the lines."""
        return [line.errand for line in self.lines if line.errand is not None]

    def ask(self, text: str, *values: Any) -> Sequence[Row]:
        """Run any SQL outside of the history. It must not have to wait."""
        return self._own.fetch(text, values or None)

    def script(self, text: str) -> None:
        """Run several statements outside of the history."""
        self._own.execute(text, prepare=False)

    def line(self, name: str) -> Line:
        """A new line."""
        self.lines.append(Line(len(self.lines) + 1, name, self._dsn))
        return self.lines[-1]

    def begin(
        self,
        line: Line,
        work: Coroutine[Any, Any, Any],
        then: Callable[[Any], None],
        *,
        may_wait: bool,
        stop: Gate | None = None,
    ) -> None:
        """Begin an errand. Comes back when each errand has ended or waits, and what came of them was told."""
        self._runner.run(self._begin(line, work, then, may_wait=may_wait, stop=stop))
        self._tell()

    def go_on(self, errand: Errand) -> None:
        """Let an errand pass its gate; comes back as `begin` does."""
        self._open(errand)
        self._runner.run(self._until_all_wait())
        self._tell()

    def end_all(self) -> None:
        """End all errands and transactions; what came of them is dropped."""
        self._runner.run(self._end_all())

    async def _begin(
        self,
        line: Line,
        work: Coroutine[Any, Any, Any],
        then: Callable[[Any], None],
        *,
        may_wait: bool,
        stop: Gate | None,
    ) -> None:
        assert line.is_idle
        await line.open()
        if stop is not None:
            self.ask("select pg_advisory_lock($1, $2)", line.number, stop)
        line.errand = Errand(line, asyncio.create_task(work), may_wait, then, stop)
        await self._until_all_wait()

    def _open(self, errand: Errand) -> None:
        if errand.stops_at is not None:
            self.ask("select pg_advisory_unlock($1, $2)", errand.line.number, errand.stops_at)
            errand.stops_at = None

    async def _until_all_wait(self) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        look = FIRST_LOOK_SECONDS
        while under_way := [errand for errand in self.errands if not errand.task.done()]:
            await asyncio.wait([errand.task for errand in under_way], timeout=look, return_when=asyncio.FIRST_COMPLETED)
            under_way = [errand for errand in under_way if not errand.task.done()]
            blockers = self._blockers([errand.line.pid for errand in under_way])
            if all(blockers.values()) and not _has_cycle(blockers):
                self._note_waits(under_way, blockers)
                break
            assert time.monotonic() < deadline, f"neither ends nor waits: {[errand.line.name for errand in under_way]}"
            look = min(LONGEST_LOOK_SECONDS, look * 1.5)
        for errand in self.errands:
            if errand.task.done():
                self._open(errand)

    def _blockers(self, pids: Sequence[int]) -> dict[int, list[int]]:
        """For each process, those of the history that it waits for: none at the very moment that the lock is free.

        A commit that announces something also waits for commits in other databases. They end without our help.
        """
        text = "select pid, pg_blocking_pids(pid) from unnest(cast($1 as int[])) as pid"
        rows: Sequence[Any] = self.ask(text, [*pids]) if pids else ()
        ours = {self._own.info.backend_pid, *(line.pid for line in self.lines if line.is_open)}
        return {pid: [other for other in others if other in ours] for pid, others in rows}

    def _note_waits(self, under_way: Iterable[Errand], blockers: Mapping[int, Sequence[int]]) -> None:
        for errand in under_way:
            errand.is_stopped = {*blockers[errand.line.pid]} == {self._own.info.backend_pid}
            assert errand.is_stopped or errand.may_wait, f"the {errand.line.name} waits for a row"

    def _tell(self) -> None:
        ended = [errand for errand in self.errands if errand.task.done()]
        for errand in ended:
            errand.line.errand = None
        for errand in ended:
            error = errand.task.exception()
            if error is None:
                errand.then(errand.task.result())
            elif errand.may_wait and sqlstate_of(error) == DEADLOCK:
                errand.then(None)
            else:
                raise error

    async def _end_all(self) -> None:
        for errand in self.errands:
            self._open(errand)
        while True:
            for line in self.lines:
                if line.errand is not None and line.errand.task.done():
                    await asyncio.gather(line.errand.task, return_exceptions=True)
                    line.errand = None
                if line.errand is None and line.has_transaction:
                    await line.query("rollback")
            if not self.errands:
                break
            await asyncio.wait([errand.task for errand in self.errands], return_when=asyncio.FIRST_COMPLETED)


def _has_cycle(blockers: Mapping[int, Sequence[int]]) -> bool:
    """True if some of them wait for each other: PostgreSQL is about to end one of them."""
    waiting = {pid: {*others} & blockers.keys() for pid, others in blockers.items()}
    while free := [pid for pid, others in waiting.items() if not others & waiting.keys()]:
        for pid in free:
            del waiting[pid]
    return bool(waiting)
