"""Hooks that are asked before a job is added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Client, JobSpec, RawJobSpec, SyncClient
from ferryman.errors import (
    ConfigurationError,
    InvalidJobError,
    InvalidPayloadError,
    JobScheduleFailedError,
    JobScheduleSkippedError,
)
from ferryman.hooks import BeforeJobSchedule, Continue, HookRegistry, Reject, Skip

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def hooks() -> HookRegistry:
    return HookRegistry()


@pytest.fixture
async def client(database: str, hooks: HookRegistry) -> AsyncIterator[Client]:
    async with Client(database, hooks=hooks) as opened:
        yield opened


async def test_a_hook_sees_the_job_and_may_change_its_payload(client: Client, hooks: HookRegistry) -> None:
    seen: list[BeforeJobSchedule] = []

    @hooks.on(BeforeJobSchedule)
    async def stamp(event: BeforeJobSchedule) -> Continue[Any]:
        seen.append(event)
        return Continue({**event.payload, "stamped": True})

    job = await client.add_raw_job("x", {"n": 1}, JobSpec(queue_name="q", priority=3))

    assert job.payload == {"n": 1, "stamped": True}
    assert (seen[0].identifier, seen[0].payload) == ("x", {"n": 1})
    assert (seen[0].spec.queue_name, seen[0].spec.priority) == ("q", 3)
    assert (job.queue_name, job.priority) == ("q", 3)


async def test_hooks_are_chained_in_the_order_of_their_registration(client: Client, hooks: HookRegistry) -> None:
    for letter in "ab":
        hooks.on(BeforeJobSchedule, lambda event, letter=letter: Continue(event.payload + letter))

    assert (await client.add_raw_job("x", "-")).payload == "-ab"


async def test_a_skipped_job_is_not_added_and_the_caller_is_told(client: Client, hooks: HookRegistry) -> None:
    hooks.on(BeforeJobSchedule, lambda _event: Skip())

    with pytest.raises(JobScheduleSkippedError, match=r"job for 'x' not added: a BeforeJobSchedule hook returned Skip"):
        await client.add_raw_job("x")
    assert (await client.counts()).total == 0


async def test_one_refused_job_keeps_its_whole_batch_out(client: Client, hooks: HookRegistry) -> None:
    hooks.on(BeforeJobSchedule, lambda event: Reject("no threes") if event.payload == 3 else None)

    with pytest.raises(JobScheduleFailedError, match="no threes"):
        await client.add_raw_jobs([RawJobSpec("x", n) for n in range(5)])
    assert (await client.counts()).total == 0


async def test_a_hook_cannot_smuggle_in_what_json_cannot_hold(client: Client, hooks: HookRegistry) -> None:
    hooks.on(BeforeJobSchedule, lambda _event: Continue(float("nan")))

    with pytest.raises(InvalidPayloadError):
        await client.add_raw_job("x")


@pytest.mark.parametrize("payload", [{}, []])
async def test_a_batch_stays_a_list_with_items(client: Client, hooks: HookRegistry, payload: object) -> None:
    hooks.on(BeforeJobSchedule, lambda _event: Continue(payload))

    with pytest.raises(InvalidJobError, match="must return a JSON array with at least one item"):
        await client.add_batch_job("x", [1])
    assert (await client.counts()).total == 0


def test_the_blocking_client_asks_blocking_hooks(database: str, hooks: HookRegistry) -> None:
    hooks.on(BeforeJobSchedule, lambda event: Continue(event.payload * 2))
    with SyncClient(database, hooks=hooks) as client:
        assert client.add_raw_job("x", 21).payload == 42


def test_the_blocking_client_refuses_async_hooks(database: str, hooks: HookRegistry) -> None:
    @hooks.on(BeforeJobSchedule)
    async def never(event: BeforeJobSchedule) -> None: ...

    with SyncClient(database, hooks=hooks) as client, pytest.raises(ConfigurationError):
        client.add_raw_job("x")
