"""A row that somebody holds delays its own job only: others are settled, started and recovered meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman import App, LocalQueueConfig
from ferryman.retries import FixedDelay
from ferryman.worker.claiming.claims import Claim
from ferryman.worker.settling.buffers import OutcomeBuffer
from ferryman.worker.settling.outcomes import Completed, Settlement, Written
from tests.settling.endings import COMPLETED, FAILED, INTERRUPTION, ROLLED_BACK, UNSTARTED, Ending
from tests.settling.neighbours import NOBODY, QUEUE_LOCKED, ROW_LOCKED, Cell, neighbours_of
from tests.settling.stage import MODES, Stage
from tests.support.logs import logged
from tests.support.rhythms import PATIENT, recovery_of
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.support.tables import Tables

HELD = {
    "row": Cell(ROW_LOCKED, commits=False, is_queued=False),
    "row, with a queue": Cell(ROW_LOCKED, commits=False, is_queued=True),
    "queue": Cell(QUEUE_LOCKED, commits=False, is_queued=True),
}
OTHERS = 20
BLOCKING = """
    select job.id from graphile_worker._private_jobs as job
    join graphile_worker._private_tasks as task on task.id = job.task_id and task.identifier = 'block'
"""
"""Jobs that keep a slot busy."""


class Crowd:
    """Other jobs: some are done and some fail, with and without a named queue, in which they have to take turns."""

    def __init__(self, app: App, tables: Tables) -> None:
        self._tables = tables
        app.task(self.succeed)
        app.task(retry=FixedDelay(1000))(self.fail)

    async def succeed(self) -> None:
        pass

    async def fail(self) -> None:
        raise ValueError("no")

    def add(self, count: int = OTHERS) -> None:
        self._tables.add_jobs(
            *(
                {"identifier": task, "queue_name": f"{task} in turn" if is_queued else None}
                for task in ("succeed", "fail")
                for is_queued in (False, True)
                for _ in range(count // 4)
            )
        )

    def is_settled(self, count: int = OTHERS) -> bool:
        """Whether one half is gone, and the other half waits for its next attempt."""
        rows = self._tables.query(
            "select task.identifier, job.locked_by, job.attempts from graphile_worker._private_jobs as job"
            " join graphile_worker._private_tasks as task on task.id = job.task_id"
            " where task.identifier in ('succeed', 'fail')"
        )
        found = [(row["identifier"], row["locked_by"], row["attempts"]) for row in rows]
        return found == [("fail", None, 1)] * (count // 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("ending", [COMPLETED, FAILED, ROLLED_BACK], ids=str)
async def test_other_jobs_are_settled_while_a_row_is_held(
    *, database: str, tables: Tables, monkeypatch: pytest.MonkeyPatch, ending: Ending, held: str, mode: str
) -> None:
    stage = Stage(database, tables, ending, mode, [HELD[held]])
    crowd = Crowd(stage.app, tables)

    async with stage.set_up(monkeypatch, concurrency=6):
        with neighbours_of(stage.jobs, database):
            stage.let_end()
            await until(lambda: len(stage.ended) == 1, "the job has ended")
            crowd.add()
            await until(crowd.is_settled, "all others are settled")
            assert stage.locked() == {HELD[held]}
        await stage.until_over()
        stage.check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", [COMPLETED, FAILED], ids=str)
async def test_many_held_rows_do_not_use_up_the_connections_of_the_worker(
    database: str, tables: Tables, monkeypatch: pytest.MonkeyPatch, ending: Ending, mode: str
) -> None:
    cells = [Cell(ROW_LOCKED, commits=False, is_queued=number % 2 == 0, number=number) for number in range(12)]
    stage = Stage(database, tables, ending, mode, cells)
    crowd = Crowd(stage.app, tables)

    async with stage.set_up(monkeypatch, max_connections=3):
        with neighbours_of(stage.jobs, database):
            stage.let_end()
            await until(lambda: len(stage.ended) == len(cells), "the jobs have ended")
            crowd.add()
            await until(crowd.is_settled, "all others are settled")
            assert stage.locked() == {*cells}
        await stage.until_over()
        stage.check()


async def test_the_log_tells_of_rows_that_are_held(
    database: str, tables: Tables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ferryman.worker.settling.blocked_outcomes.SECONDS_UNTIL_TOLD", 0.0)
    stage = Stage(database, tables, FAILED, "direct", [HELD["row"]])

    async with stage.set_up(monkeypatch):
        with neighbours_of(stage.jobs, database):
            stage.let_end()
            job_id = stage.jobs[HELD["row"]]["id"]
            await until(lambda: logged(caplog, "rows_held", count=1, job_id=job_id), "the log tells of it")
        await stage.until_over()
        stage.check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", [COMPLETED, FAILED, ROLLED_BACK, INTERRUPTION, UNSTARTED], ids=str)
async def test_a_worker_that_ends_beside_a_held_row_settles_all_other_jobs_and_ends(
    *,
    database: str,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ending: Ending,
    mode: str,
) -> None:
    monkeypatch.setattr("ferryman.worker.stopping.SECONDS_THAT_A_STORM_LASTS", 0.0)
    monkeypatch.setattr("ferryman.worker.life.SECONDS_AFTER_HURRY", 0.1)
    held = [Cell(neighbour, commits=False, is_queued=True) for neighbour in (ROW_LOCKED, QUEUE_LOCKED)]
    others = [Cell(NOBODY, commits=True, is_queued=number % 2 == 0, number=number) for number in range(OTHERS)]
    stage = Stage(database, tables, ending, mode, [*held, *others])

    async with stage.set_up(monkeypatch) as life:
        with neighbours_of(stage.jobs, database):
            stage.let_end()
            if not ending.at_shutdown:
                stage.worker.request_shutdown()
            await until(stage.has_gone_on, "all others are settled")
            assert not life.done()
            stage.open_gate()
            await until(lambda: tables.query(BLOCKING) == [], "nothing runs any more")
            stage.worker.request_shutdown()
            await until(life.done, "the worker ends, although rows are held")
            stage.check(*held)
            assert {tables.job(stage.jobs[cell]["id"])["locked_by"] for cell in held} == {stage.worker.worker_id}
    assert len(logged(caplog, "outcomes_unwritten")) == 1


async def test_other_jobs_start_while_the_row_of_one_that_was_claimed_ahead_is_held(
    database: str, tables: Tables
) -> None:
    """Such jobs wait until their start is marked, and all that start at one moment share a statement."""
    app, gate = App(database), asyncio.Event()
    started: list[int] = []

    @app.task
    async def block() -> None:
        await gate.wait()

    @app.task(on_crash="fail")
    async def note(number: int) -> None:
        started.append(number)

    for _ in range(4):
        tables.add_job("block", priority=-10)
    first, *_ = tables.add_jobs(*({"identifier": "note", "payload": {"number": number}} for number in range(12)))
    worker = worker_of(app, concurrency=4, local_queue=LocalQueueConfig(), recovery=recovery_of(PATIENT))
    claimed = "select id from graphile_worker._private_jobs where locked_by is not null"

    async with running(worker):
        try:
            await until(lambda: len(tables.query(claimed)) == 16, "all are claimed ahead")
            with psycopg.connect(database) as neighbour:
                neighbour.execute("select from graphile_worker._private_jobs where id = %s for update", [first["id"]])
                gate.set()
                await until(lambda: sorted(started) == [*range(1, 12)], "all others start")
            await until(lambda: 0 in started, "so does that one")
            await until(lambda: tables.jobs() == [], "all are done")
        finally:
            gate.set()


async def test_rows_that_are_tried_again_all_the_time_do_not_keep_others_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ferryman.worker.settling.blocked_outcomes.SHORTEST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("ferryman.worker.settling.blocked_outcomes.LONGEST_PAUSE_SECONDS", 0.0)
    held, free = completion_of(1), completion_of(2)
    tries = 0
    written: list[Settlement] = []

    async def write(settlements: Sequence[Settlement]) -> Written:
        nonlocal tries
        tries += held in settlements
        await asyncio.sleep(0)
        written.extend(each for each in settlements if each is not held)
        return Written((), blocked=[held] if held in settlements else [])

    buffer = buffer_of(write)
    writing = asyncio.create_task(buffer.run())
    buffer.put(held)
    await until(lambda: tries > 1, "the held row is tried again")
    buffer.put(free)
    await until(lambda: written, "the other one is written")
    writing.cancel()
    assert written == [free]


async def test_a_buffer_is_empty_as_soon_as_the_last_held_row_is_written() -> None:
    """A worker that shuts down waits for that."""
    tries = 0

    async def write(settlements: Sequence[Settlement]) -> Written:
        nonlocal tries
        tries += 1
        return Written((), blocked=settlements if tries < 3 else [])

    buffer = buffer_of(write)
    writing = asyncio.create_task(buffer.run())
    buffer.put(completion_of(1))
    assert not buffer.empty.is_set()
    await until(lambda: not buffer.unsettled, "the held row is written")
    await until(buffer.empty.is_set, "the buffer says so")
    writing.cancel()
    assert tries == 3


def buffer_of(write: Callable[[Sequence[Settlement]], Awaitable[Written]]) -> OutcomeBuffer:
    writer: Any = SimpleNamespace(duty="completing jobs", write=lambda settlements, **_: write(settlements))
    settler: Any = SimpleNamespace(report=lambda *_: None)
    return OutcomeBuffer(writer, settler)


def completion_of(job_id: int) -> Settlement:
    return Settlement(Claim(job_id, 1, "{}", None, 1, "worker", (), 0), Completed(0.0))
