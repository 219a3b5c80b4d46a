"""Workers keep jobs apart that have crashed before: in a quarter of the slots, and alone before their last chance."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, JobSpec, LocalQueueConfig, RawJobSpec, Snooze, WorkerContext
from ferryman.recovery.crashes import ALONE_FLAG, CRASHED_FLAG, SUSPECT_FLAG
from ferryman.worker.claiming.claims import Claim
from ferryman.worker.running import suspects
from ferryman.worker.running.suspects import Suspects
from tests.support.rhythms import PATIENT, recovery_of
from tests.support.tables import Tables
from tests.support.waiting import until
from tests.support.workers import MINUTES, run_all, running, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from ferryman import Client

FLAGS = {
    None: None,
    "suspect": ["ferryman:crashed", "ferryman:suspect"],
    "alone": ["ferryman:crashed", "ferryman:suspect", "ferryman:alone"],
}
QUEUES = [None, LocalQueueConfig(size=20)]


class Scene:
    """Jobs that record when they run, and beside which others."""

    def __init__(self, client: Client, tables: Tables) -> None:
        self.client, self.tables = client, tables
        self.app = App(client.address.conninfo)
        self.now: set[int] = set()
        self.seen: dict[int, set[int]] = {}
        """The jobs that ran at a time when this one did."""
        self.crowds: list[set[int]] = []
        """The jobs that ran whenever one of them started."""
        self.attempts: dict[int, int] = {}
        self.gates: dict[int, asyncio.Event] = {}

        @self.app.task(identifier="task")
        async def task(ctx: WorkerContext) -> None:
            with self._runs(ctx.job.id):
                self.attempts[ctx.job.id] = ctx.job.attempts
                await self.gates[ctx.job.id].wait() if ctx.job.id in self.gates else await asyncio.sleep(0.01)

        @self.app.task(identifier="fails", retry=lambda *_: timedelta(hours=1))
        async def fails() -> None:
            raise ValueError("as usual")

        @self.app.task(identifier="snoozes")
        async def snoozes() -> None:
            raise Snooze(timedelta(hours=1))

    @contextmanager
    def _runs(self, job_id: int) -> Iterator[None]:
        self.now.add(job_id)
        self.crowds.append({*self.now})
        for other in self.now:
            self.seen.setdefault(other, set()).update(self.now)
        try:
            yield
        finally:
            self.now.discard(job_id)

    async def add(self, count: int, suspicion: str | None = None, task: str = "task") -> list[int]:
        jobs = await self.client.add_raw_jobs([RawJobSpec(task, {}, JobSpec(flags=FLAGS[suspicion]))] * count)
        return [job.id for job in jobs]

    def worker(self, local_queue: LocalQueueConfig | None, **given: Any) -> Any:
        return worker_of(self.app, recovery=recovery_of(PATIENT), local_queue=local_queue, **given)

    async def until_gone(self) -> None:
        await until(lambda: not self.tables.jobs(), "all jobs are done")


@pytest.fixture
def scene(client: Client, connection: psycopg.Connection) -> Scene:
    return Scene(client, Tables(connection))


@pytest.mark.parametrize("local_queue", QUEUES)
@pytest.mark.parametrize(("slots", "most"), [(7, 1), (8, 2)])
async def test_a_worker_runs_suspects_in_a_quarter_of_its_slots_and_others_beside_them(
    scene: Scene, local_queue: LocalQueueConfig | None, slots: int, most: int
) -> None:
    kept_apart = await scene.add(6, "suspect")
    others = await scene.add(12)
    scene.gates = {job_id: asyncio.Event() for job_id in kept_apart}
    async with running(scene.worker(local_queue, concurrency=slots)):
        await until(lambda: {*others} <= {*scene.attempts}, "the others run beside them")
        await until(lambda: scene.now == {*kept_apart[:most]}, "the others have ended, and the first suspects run")
        for gate in scene.gates.values():
            gate.set()
        await scene.until_gone()
    assert max(len({*kept_apart} & crowd) for crowd in scene.crowds) == most
    assert {*scene.attempts.values()} == {1}


@pytest.mark.parametrize("local_queue", QUEUES)
async def test_while_long_suspects_run_other_suspects_are_free_for_other_workers(
    scene: Scene, local_queue: LocalQueueConfig | None
) -> None:
    first, second, *rest = await scene.add(5, "suspect")
    scene.gates = {first: asyncio.Event(), second: asyncio.Event()}
    async with running(scene.worker(local_queue, concurrency=8)):
        await until(lambda: {first, second} <= scene.now, "two of them run")
        [last_chance] = await scene.add(1, "alone")
        others = await scene.add(3)
        await until(lambda: {*others} <= {*scene.attempts}, "jobs that never crashed go on")
        free = [*rest, last_chance]
        await until(lambda: {scene.tables.job(each)["locked_by"] for each in free} == {None}, "the others are free")
        assert scene.now.isdisjoint(free)
        async with running(scene.worker(local_queue, concurrency=8)):
            await until(lambda: {*free} <= {*scene.attempts}, "another worker runs them")
        [next_one] = await scene.add(1, "suspect")
        scene.gates[first].set()
        await until(lambda: next_one in scene.attempts, "there is room for one")
        assert second in scene.now
        scene.gates[second].set()
        await scene.until_gone()
    assert {*scene.attempts.values()} == {1}


def test_a_job_that_must_run_alone_does_not_wait_for_ever_while_suspects_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, held = 0.0, []
    monkeypatch.setattr(suspects, "time", SimpleNamespace(monotonic=lambda: now))
    kept = Suspects(
        slots=8,
        is_held=lambda claim: claim in held,
        is_alone=lambda: False,
        give_back_waiting=lambda: None,
        give_back=lambda _: pytest.fail("given back"),
        is_stopping=lambda: False,
    )
    claim = Claim(1, 1, "{}", None, 0, "worker", (), 0, crash_flags=(CRASHED_FLAG, SUSPECT_FLAG))
    assert kept.forbidden_flags() == ()
    held.append(claim)
    kept.admit([claim])

    told = {}
    for now in (1.0, 59.0, 61.0, 119.0, 121.0, 181.0):
        told[now] = kept.forbidden_flags()
    only_alone, all_of_them = (ALONE_FLAG,), (SUSPECT_FLAG,)
    assert [*told.values()] == [only_alone, only_alone, all_of_them, all_of_them, only_alone, all_of_them]
    held.clear()
    assert kept.forbidden_flags() == ()


@pytest.mark.parametrize("local_queue", QUEUES)
async def test_a_job_on_its_last_chance_runs_alone(scene: Scene, local_queue: LocalQueueConfig | None) -> None:
    [busy] = await scene.add(1)
    scene.gates = {busy: asyncio.Event()}
    async with running(scene.worker(local_queue)):
        await until(lambda: busy in scene.now, "one runs")
        [last_chance] = await scene.add(1, "alone")
        await until(lambda: scene.tables.job(last_chance)["locked_by"] is not None, "it waits for room")
        others = await scene.add(5)
        scene.gates[last_chance] = asyncio.Event()
        scene.gates[busy].set()
        await until(lambda: last_chance in scene.now, "it runs")
        assert {scene.tables.job(each)["locked_by"] for each in others} == {None}
        [mark] = scene.tables.query("select job_id from graphile_worker._ferryman_started_jobs")
        assert mark["job_id"] == last_chance
        scene.gates[last_chance].set()
        await scene.until_gone()
    assert scene.seen[last_chance] == {last_chance}


async def test_a_job_for_which_no_room_can_be_made_goes_back_and_others_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(suspects, "SECONDS_TO_MAKE_ROOM", 0.1)
    [endless] = await scene.add(1)
    scene.gates = {endless: asyncio.Event()}
    async with running(scene.worker(None)):
        await until(lambda: endless in scene.now, "one runs")
        [last_chance] = await scene.add(1, "alone")
        await until(lambda: any(vars(each).get("event") == "no_room_for_suspect" for each in caplog.records), "told")
        others = await scene.add(3)
        await until(lambda: {*others} <= {*scene.attempts}, "others run")
        scene.gates[endless].set()
    job = scene.tables.job(last_chance)
    assert (job["locked_by"], job["attempts"], "ferryman:alone" in job["flags"]) == (None, 0, True)
    assert (job["run_at"] - job["created_at"]).total_seconds() > 200


async def test_a_worker_that_runs_once_runs_all_suspects_one_after_the_other(scene: Scene) -> None:
    kept_apart = [*await scene.add(3, "suspect"), *await scene.add(2, "alone")]
    await run_all(scene.app, recovery=recovery_of(PATIENT))
    assert scene.tables.jobs() == []
    assert {len(scene.seen[job_id]) for job_id in kept_apart} == {1}


@pytest.mark.parametrize("task", ["fails", "snoozes"])
async def test_a_suspect_that_ends_in_an_ordinary_way_is_one_no_longer(scene: Scene, task: str) -> None:
    [job_id] = await scene.add(1, "alone", task)
    await run_all(scene.app, recovery=recovery_of(PATIENT))
    assert scene.tables.job(job_id)["flags"] is None


async def test_a_suspect_that_is_interrupted_by_a_shutdown_stays_one(scene: Scene) -> None:
    [job_id] = await scene.add(1, "alone")
    scene.gates = {job_id: asyncio.Event()}
    async with running(scene.worker(None, shutdown={"grace_period": timedelta()})):
        await until(lambda: job_id in scene.now, "it runs")
    job = scene.tables.job(job_id)
    assert (job["locked_by"], job["attempts"]) == (None, 0)
    assert {"ferryman:crashed", "ferryman:suspect", "ferryman:alone"} <= {*job["flags"]}


async def test_a_worker_without_recovery_runs_suspects_like_all_others(scene: Scene) -> None:
    await scene.add(4, "suspect")
    await run_all(scene.app, recovery=recovery_of({"enabled": False}))
    assert max(len(beside) for beside in scene.seen.values()) > 1


@pytest.mark.parametrize("task", ["task", "blocking"])
async def test_a_suspect_that_waits_for_room_does_not_start_after_the_request_to_stop(
    scene: Scene, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "SECONDS_TO_MAKE_ROOM", 3600)

    @scene.app.task
    def blocking() -> None:
        pytest.fail("it ran")

    [busy] = await scene.add(1)
    scene.gates = {busy: asyncio.Event()}
    worker = scene.worker(None, shutdown={"grace_period": MINUTES})
    async with running(worker):
        await until(lambda: busy in scene.now, "one runs")
        [last] = await scene.add(1, "alone", task)
        await until(lambda: scene.tables.job(last)["locked_by"] is not None, "the suspect waits for room")
        worker.request_shutdown()
        await until(lambda: scene.tables.job(last)["locked_by"] is None, "the suspect is given back")
        scene.gates[busy].set()
    assert last not in scene.attempts
    job = scene.tables.job(last)
    assert (job["attempts"], job["last_error"]) == (0, None)


async def test_a_job_that_never_ends_and_suspects_that_must_run_alone_do_not_keep_others_from_running(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "SECONDS_TO_MAKE_ROOM", 0.2)
    monkeypatch.setattr("ferryman.worker.running.slots.SECONDS_UNTIL_NEXT_ROOM", 0.0)
    [endless] = await scene.add(1)
    scene.gates = {endless: asyncio.Event()}
    async with running(scene.worker(None)):
        await until(lambda: endless in scene.now, "one runs")
        kept_apart = await scene.add(5, "alone")
        others = await scene.add(5)
        await until(lambda: {*others} <= {*scene.attempts}, "others run")
        scene.gates[endless].set()
    assert {*kept_apart}.isdisjoint(scene.attempts)
