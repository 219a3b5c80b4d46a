"""Each source of jobs does what the worker needs of it, and leaves room for others beside it."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, LocalQueueConfig, RawJobSpec
from ferryman.database.timed import TimedDatabase
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.claiming.direct import DirectSource
from ferryman.worker.claiming.local_queue import LocalQueue
from ferryman.worker.identity import Identity
from ferryman.worker.source import JobSource
from tests.support.claimers import claimer_alone
from tests.support.inside import inside
from tests.support.waiting import until
from tests.support.workers import jobs, running, worker_of

if TYPE_CHECKING:
    import psycopg

    from ferryman import Client
    from ferryman.worker.claiming.claims import Claimed

MEMBERS = sorted(name for name in vars(JobSource) if not name.startswith("_"))


def test_a_source_has_seven_members() -> None:
    assert MEMBERS == ["give_back", "held_claims", "run", "settled", "slot_freed", "take", "wake"]


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("source", [DirectSource, LocalQueue])
def test_each_source_has_them_in_the_same_form(source: type[Any], member: str) -> None:
    wanted, found = vars(JobSource)[member], getattr(source, member)
    assert isinstance(found, property) == isinstance(wanted, property)
    if not isinstance(wanted, property):
        assert [*inspect.signature(found).parameters] == [*inspect.signature(wanted).parameters]
        assert inspect.iscoroutinefunction(found) == inspect.iscoroutinefunction(wanted)


@pytest.mark.parametrize("local_queue", [None, LocalQueueConfig()], ids=["direct", "local queue"])
async def test_what_a_claim_brings_is_held_before_another_claim_can_begin(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch, local_queue: LocalQueueConfig | None
) -> None:
    """Otherwise the next claim, of another source, could take it for lost."""
    claim, are_held, ran = Claimer.claim, list[bool](), list[int]()

    async def claim_and_look(claimer: Claimer, *args: Any, **given: Any) -> Claimed:
        claimed = await claim(claimer, *args, **given)
        if claimed.claims:
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: are_held.append({*claimed.claims} <= {*inside(worker).held}))
        return claimed

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    monkeypatch.setattr(Claimer, "claim", claim_and_look)
    await client.add_raw_jobs([RawJobSpec("note", {"number": number}) for number in range(8)])
    worker = worker_of(app, local_queue=local_queue)
    async with running(worker):
        await until(lambda: len(ran) == 8, "all have run")

    assert are_held
    assert all(are_held)


async def test_a_second_claim_waits_until_the_first_is_heard_of(client: Client, connection: psycopg.Connection) -> None:
    [job] = await client.add_raw_jobs([RawJobSpec("work", {})])
    identity = Identity()
    alone = claimer_alone(TimedDatabase(client.pool, client.schema), identity, ["work"])
    await alone.tasks.register()

    async with alone.lost.one_claim(identity.id):
        claiming = asyncio.create_task(alone.claimer.claim(1))
        await asyncio.sleep(0.1)
        assert jobs(connection)[0].locked_by is None
    assert [claim.job_id for claim in (await claiming).claims] == [job.id]
