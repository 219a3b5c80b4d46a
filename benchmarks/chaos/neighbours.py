"""Neighbours: processes that work on the same tables as the workers, each in one transaction after the other.

producer   adds jobs, most of them by their keys, in each job key mode: some one at a time, or 50 in one call
operator   reschedules, completes, removes and fails jobs
locker     locks rows of jobs or queues, and changes nothing
assassin   ends the sessions of the others

A transaction stays open for up to some seconds. Then it is committed or rolled back, or its session is closed. A
neighbour notes what its transaction has done just before that: whether it was committed is asked of PostgreSQL at the
end of the run, by the transaction's number, since a neighbour may not live to hear it.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import select
import signal
import time
import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import psycopg
from psycopg import sql

from benchmarks.chaos.plan import HOT_KEYS, KEYS, draw_job
from benchmarks.kill.handlers import TRANSACTION
from benchmarks.kill.looking import SCHEMA
from benchmarks.kill.working import PARENT_DEATH_SIGNAL
from ferryman import FerrymanError, JobKeyMode, RescheduleJobOptions, SyncClient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.chaos.plan import ChaosJob
    from benchmarks.kill.recorder import Recorder
    from ferryman import Job, RawJobSpec

    Connection: TypeAlias = psycopg.Connection[Any]
    Act: TypeAlias = dict[str, Any]

NAME = "ferryman neighbour"
KINDS = (*["producer"] * 5, *["operator"] * 2, *["locker"] * 4, "assassin")
MOST_OPEN_JOBS = 250
"""Beyond this, producers wait."""
MANY = 50
LONGEST_PAUSE = 0.2
"""Seconds between two transactions."""
NUMBERS_EACH = 10_000_000
HOLDS = {(0.0, 0.0): 45, (0.0, 0.3): 35, (0.3, 1.5): 15, (1.5, 6.0): 5}
"""For how many seconds a transaction stays open, and how often."""
ENDS = {"commit": 75, "rollback": 18, "close": 7}
STRENGTHS = ("for update", "for no key update", "for share", "for key share")


class Neighbour:
    """A neighbour: a process that works on the tables in one transaction after the other."""

    def __init__(self, place: int, seed: int, dsn: str, recorder: Recorder, until: int) -> None:
        self.kind = KINDS[place]
        self.name = f"{self.kind} {place}"
        self._dice = random.Random(f"{seed} {self.name}")
        self._numbers = itertools.count(1 + place * NUMBERS_EACH)
        self._dsn = dsn
        self._recorder = recorder
        self._until = until
        self._act: Callable[[SyncClient, Connection], list[Act]] = getattr(self, f"_{self.kind}")

    def live(self) -> NoReturn:
        """Run in a process that was just forked, until there is something to read in the pipe `until`."""
        code = 1
        try:
            ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
            with SyncClient(self._dsn) as client:
                while not self._is_over_after(self._dice.uniform(0.0, LONGEST_PAUSE)):
                    self._one_transaction(client)
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the history must know
            self._recorder.note("broken", error=f"{self.name}: {traceback.format_exc()}")
        finally:
            os._exit(code)

    def _is_over_after(self, seconds: float) -> bool:
        """Wait, but not beyond the end of the run."""
        return bool(select.select([self._until], [], [], seconds)[0])

    def _one_transaction(self, client: SyncClient) -> None:
        error: str | None = None
        [(least, most)] = self._dice.choices([*HOLDS], [*HOLDS.values()])
        hold, [end] = self._dice.uniform(least, most), self._dice.choices([*ENDS], [*ENDS.values()])
        number: int | None = None
        began = time.monotonic()
        try:
            with psycopg.connect(self._dsn, application_name=NAME) as connection:
                [number] = connection.execute(TRANSACTION).fetchone() or (None,)
                acts = self._act(client, connection)
                self._recorder.note("acts", neighbour=self.name, transaction=number, acts=acts)
                self._is_over_after(hold)
                if end == "close":
                    connection.close()
                elif end == "rollback":
                    connection.rollback()
                else:
                    connection.commit()
        except (psycopg.Error, FerrymanError) as failure:
            error = f"{type(failure).__name__}: {failure}".partition("\n")[0]
        seconds = round(time.monotonic() - began, 3)
        self._recorder.note("acted", neighbour=self.name, transaction=number, end=end, error=error, seconds=seconds)

    def _producer(self, client: SyncClient, connection: Connection) -> list[Act]:
        [open_jobs] = _column(connection, _OPEN_JOBS)
        if open_jobs > MOST_OPEN_JOBS:
            return []
        if self._dice.random() < 0.12:
            mode = self._dice.choice([JobKeyMode.REPLACE, JobKeyMode.PRESERVE_RUN_AT])
            plans = [self._draw(key) for key in self._dice.sample(KEYS, MANY)]
            jobs = client.add_raw_jobs([_keyed(plan, mode) for plan in plans], using=connection)
            return [_addition(plan, job, mode) for plan, job in zip(plans, jobs, strict=True)]
        if self._dice.random() < 0.3:
            plans = [self._draw(None) for _ in range(self._dice.randint(5, 25))]
            jobs = client.add_raw_jobs([plan.raw for plan in plans], using=connection)
            return [_addition(plan, job, None) for plan, job in zip(plans, jobs, strict=True)]
        return [self._add_one(client, connection) for _ in range(self._dice.choice([1, 1, 2, 5]))]

    def _add_one(self, client: SyncClient, connection: Connection) -> Act:
        plan, mode = self._draw(self._dice.choice(HOT_KEYS)), self._dice.choice([*JobKeyMode])
        raw = _keyed(plan, mode)
        return _addition(plan, client.add_raw_job(raw.identifier, raw.payload, raw.spec, using=connection), mode)

    def _draw(self, key: str | None) -> ChaosJob:
        return draw_job(self._dice, next(self._numbers), key=key)

    def _operator(self, client: SyncClient, connection: Connection) -> list[Act]:
        if self._dice.random() < 0.3:
            job = client.remove_job(self._dice.choice(KEYS), using=connection)
            return [] if job is None else [_act("removed" if job.locked_at is None else "retired", job)]
        ids = self._some(_column(connection, _JOBS), self._dice.choice([1, 1, 3, 8]))
        what = self._dice.choices(["reschedule", "restart", "complete", "fail"], [50, 10, 20, 20])[0]
        if what == "complete":
            return [_act("completed by hand", job) for job in client.complete_jobs(ids[:2], using=connection)]
        if what == "fail":
            return [
                _act("failed by hand", job)
                for job in client.permanently_fail_jobs(ids[:2], "by an operator", using=connection)
            ]
        options = RescheduleJobOptions(
            run_at=datetime.now(UTC) + timedelta(seconds=self._dice.uniform(-1.0, 2.0)),
            priority=self._dice.choice([None, -1, 0, 1]),
            attempts=0 if what == "restart" else None,
        )
        event = "restarted" if what == "restart" else "rescheduled"
        return [_act(event, job) for job in client.reschedule_jobs(ids, options, using=connection)]

    def _locker(self, _client: SyncClient, connection: Connection) -> list[Act]:
        is_about_jobs = self._dice.random() < 0.6
        wants_claimed = self._dice.random() < 0.8
        query = (_CLAIMED_JOBS if wants_claimed else _JOBS) if is_about_jobs else _QUEUES
        ids = self._some(_column(connection, query), self._dice.choice([1, 1, 4, 20]))
        # One that holds rows and waits for others would deadlock with other neighbours.
        strength = self._dice.choice(STRENGTHS) + (" skip locked" if len(ids) > 1 else "")
        table = "_private_jobs" if is_about_jobs else "_private_job_queues"
        connection.execute(
            sql.SQL("select from {}.{} where id = any (%s) " + strength).format(
                sql.Identifier(SCHEMA), sql.Identifier(table)
            ),
            [ids],
        )
        return []

    def _assassin(self, _client: SyncClient, connection: Connection) -> list[Act]:
        victims = self._some(_column(connection, _SESSIONS), 1)
        connection.execute("select pg_terminate_backend(pid) from unnest(cast(%s as int[])) as pid", [victims])
        return []

    def _some(self, ids: Sequence[int], most: int) -> list[int]:
        return self._dice.sample(ids, min(most, len(ids)))


_JOBS_TABLE = f"{SCHEMA}._private_jobs"
_OPEN_JOBS = f"select count(*) from {_JOBS_TABLE} where attempts < max_attempts"
_JOBS = f"select id from {_JOBS_TABLE} order by id"
_CLAIMED_JOBS = f"select id from {_JOBS_TABLE} where locked_by is not null order by id"
_QUEUES = f"select id from {SCHEMA}._private_job_queues order by id"
_SESSIONS = (
    "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    f" and application_name = '{NAME}' order by pid"
)


def _column(connection: Connection, query: str) -> list[int]:
    return [row[0] for row in connection.execute(query.encode()).fetchall()]


def _keyed(plan: ChaosJob, mode: JobKeyMode) -> RawJobSpec:
    raw = plan.raw
    return replace(raw, spec=replace(raw.spec, job_key_mode=mode))


def _addition(plan: ChaosJob, job: Job, mode: JobKeyMode | None) -> Act:
    """Return what was to be added, and the job that holds it."""
    return {
        "event": "adding",
        "number": plan.number,
        "task": plan.task,
        "key": plan.key,
        "max_attempts": plan.max_attempts,
        "job": job.id,
        "revision": job.revision,
        "mode": None if mode is None else mode.name,
    }


def _act(event: str, job: Job) -> Act:
    return {"event": event, "job": job.id}
