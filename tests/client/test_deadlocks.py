"""Operations that PostgreSQL undoes, as it does to end a deadlock, and that a client carries out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

import pytest

from ferryman import App, Client, JobSpec, RawJobSpec, RescheduleJobOptions, SyncClient
from ferryman.client import CleanupTask
from ferryman.hooks import BeforeJobSchedule, HookRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

app = App()


@app.task
def paint(colour: str) -> None:
    """Paint something."""


class Deadlocks:
    """Lets statements fail as if they had been the victim of a deadlock."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._run("create sequence writes", "create sequence victims")
        self._run(
            "create function public.fall_victim() returns trigger language plpgsql as $$ begin "
            "if nextval('public.writes') = 1 "
            "then perform nextval('public.victims'); raise exception 'victim' using errcode = '40P01'; end if; "
            "return null; end $$"
        )

    def await_the_next_write(self) -> None:
        self._run(
            "alter sequence writes restart",
            "create or replace trigger victim before insert or update or delete on graphile_worker._private_jobs "
            "for each statement execute function public.fall_victim()",
        )

    @property
    def victims(self) -> int:
        found = self._connection.execute("select last_value from public.victims where is_called").fetchone()
        return 0 if found is None else int(found[0])

    def _run(self, *statements: LiteralString) -> None:
        for statement in statements:
            self._connection.execute(statement)


@pytest.fixture
def deadlocks(connection: psycopg.Connection) -> Deadlocks:
    return Deadlocks(connection)


def _generated(items: list[Any]) -> Iterator[Any]:
    yield from items


ADDING: dict[str, Callable[[Any], Any]] = {
    "add_jobs": lambda client: client.add_jobs(_generated([paint.job("red"), paint.job("blue")])),
    "add_raw_jobs": lambda client: client.add_raw_jobs(
        _generated([RawJobSpec("paint", None), RawJobSpec("paint", None)])
    ),
    "add_batch_job": lambda client: client.add_batch_job("paint", _generated([1, 2]), JobSpec(job_key="k")),
}
MANAGING: dict[str, Callable[[Any, list[int]], Any]] = {
    "complete_jobs": lambda client, ids: client.complete_jobs(_generated(ids)),
    "permanently_fail_jobs": lambda client, ids: client.permanently_fail_jobs(_generated(ids)),
    "reschedule_jobs": lambda client, ids: client.reschedule_jobs(_generated(ids), RescheduleJobOptions(priority=1)),
    "retry_jobs": lambda client, ids: client.retry_jobs(_generated(ids)),
}


@pytest.mark.parametrize("way", ADDING)
async def test_what_a_generator_gives_is_added_although_the_first_attempt_was_undone(
    client: Client, sync_client: SyncClient, deadlocks: Deadlocks, way: str
) -> None:
    deadlocks.await_the_next_write()

    added = await ADDING[way](client)
    deadlocks.await_the_next_write()
    blocking = ADDING[way](sync_client)

    assert deadlocks.victims == 2
    if way == "add_batch_job":
        assert added.id == blocking.id
        assert blocking.payload == [1, 2, 1, 2]
    else:
        assert [len(added), len(blocking), (await client.counts()).total] == [2, 2, 4]


@pytest.mark.parametrize("way", MANAGING)
async def test_jobs_that_a_generator_names_are_changed_although_the_first_attempt_was_undone(
    client: Client, sync_client: SyncClient, deadlocks: Deadlocks, way: str
) -> None:
    ids = [job.id for job in await client.add_raw_jobs([RawJobSpec("x", None)] * 4)]
    if way == "retry_jobs":
        await client.permanently_fail_jobs(ids)
    deadlocks.await_the_next_write()

    changed = await MANAGING[way](client, ids[:2])
    deadlocks.await_the_next_write()
    blocking = MANAGING[way](sync_client, ids[2:])

    assert deadlocks.victims == 2
    assert [job.id for job in [*changed, *blocking]] == ids


async def test_workers_that_a_generator_names_are_unlocked_although_the_first_attempt_was_undone(
    client: Client, connection: psycopg.Connection, deadlocks: Deadlocks
) -> None:
    job = await client.add_raw_job("x")
    connection.execute("update graphile_worker._private_jobs set locked_by = 'w', locked_at = now()")
    deadlocks.await_the_next_write()

    await client.force_unlock_workers(_generated(["w"]))

    found = await client.get_job(job.id)
    assert deadlocks.victims == 1
    assert found is not None
    assert found.locked_by is None


async def test_tasks_that_a_generator_names_are_kept_although_the_first_attempt_was_undone(
    client: Client, deadlocks: Deadlocks
) -> None:
    await client.complete_jobs([(await client.add_raw_job("x")).id, (await client.add_raw_job("y")).id])
    deadlocks.await_the_next_write()

    cleaned = await client.cleanup(
        _generated([CleanupTask.DELETE_PERMAFAILED_JOBS, CleanupTask.GC_TASK_IDENTIFIERS]),
        keep_task_identifiers=_generated(["x"]),
    )

    assert deadlocks.victims == 1
    assert cleaned.task_identifiers == ("y",)


async def test_hooks_are_asked_once_although_the_first_attempt_was_undone(database: str, deadlocks: Deadlocks) -> None:
    hooks, asked = HookRegistry(), []
    hooks.on(BeforeJobSchedule, lambda event: asked.append(event.payload))
    deadlocks.await_the_next_write()

    async with Client(database, hooks=hooks) as client:
        await client.add_raw_job("x", 1)
        deadlocks.await_the_next_write()
        await client.add_raw_jobs([RawJobSpec("x", 2), RawJobSpec("x", 3)])
        deadlocks.await_the_next_write()
        await client.add_batch_job("x", [4])
    deadlocks.await_the_next_write()
    with SyncClient(database, hooks=hooks) as blocking:
        blocking.add_job(paint.job("red"))

    assert deadlocks.victims == 4
    assert asked == [1, 2, 3, [4], {"colour": "red"}]
