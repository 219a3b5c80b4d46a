"""A slot goes on from job to job, and nothing of one job is left for the next."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.hooks import WorkerStart
from ferryman.worker.running import slots as running_module
from tests.support.waiting import until
from tests.support.workers import running
from tests.worker.local_queue.queue_watch import QueueWatch, numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman import App, Client

LEFT: ContextVar[Any] = ContextVar("LEFT")


class Incomparable:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("not like this")


@pytest.fixture
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "TURN_SECONDS", 60.0)


@pytest.fixture
def seen(app: App) -> list[Any]:
    """What jobs of the task `look` have found in their context and in their asyncio task, by number."""
    found: list[Any] = []

    @app.task
    async def look(number: int) -> None:
        assert number == len(found)
        found.append((asyncio.current_task(), LEFT.get(None)))

    return found


async def run(watch: QueueWatch, is_over: Callable[[], bool]) -> None:
    async with running(watch.worker(concurrency=1)):
        await until(is_over, "all have run")


@pytest.mark.usefixtures("long_turns")
async def test_small_jobs_share_an_asyncio_task(watch: QueueWatch, client: Client, seen: list[Any]) -> None:
    await client.add_raw_jobs(numbered("look", 20))
    await run(watch, lambda: len(seen) == 20)
    assert len({task for task, _ in seen}) == 1


@pytest.mark.usefixtures("long_turns")
@pytest.mark.parametrize("left", [1, Incomparable()])
async def test_what_a_handler_leaves_in_its_context_is_not_seen_by_the_next(
    watch: QueueWatch, client: Client, app: App, left: object
) -> None:
    found = []

    @app.task
    async def leave(number: int) -> None:
        found.append((number, LEFT.get(None)))
        LEFT.set(left)

    await client.add_raw_jobs(numbered("leave", 5))
    await run(watch, lambda: len(found) == 5)
    assert found == [(number, None) for number in range(5)]


@pytest.mark.usefixtures("long_turns")
@pytest.mark.parametrize("end", ["swallow", "raise", "exit"])
async def test_how_a_handler_ends_is_no_business_of_the_next(
    watch: QueueWatch, client: Client, app: App, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    cancelling = []

    @app.task
    async def stumble(number: int) -> None:
        me = asyncio.current_task()
        assert me is not None
        cancelling.append((number, me.cancelling()))
        if end == "raise":
            raise ValueError(number)
        if end == "exit":
            raise SystemExit(number)
        me.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return

    await client.add_raw_jobs(numbered("stumble", 5))
    await run(watch, lambda: len(cancelling) == 5)
    assert cancelling == [(number, 0) for number in range(5)]
    assert caplog.text.count("Traceback") == 0


async def test_what_a_hook_sets_when_the_worker_starts_is_seen_by_handlers(
    watch: QueueWatch, client: Client, seen: list[Any]
) -> None:
    watch.hooks.on(WorkerStart, lambda _: LEFT.set("told at the start"))
    await client.add_raw_jobs(numbered("look", 3))
    await run(watch, lambda: len(seen) == 3)
    assert {left for _, left in seen} == {"told at the start"}


async def test_handlers_that_never_wait_leave_turns_for_others(watch: QueueWatch, client: Client, app: App) -> None:
    rounds, at_rounds = 0, []

    async def go_round() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    @app.task
    async def compute(number: int) -> None:
        at_rounds.append(rounds)
        until_when = time.monotonic() + running_module.TURN_SECONDS
        while time.monotonic() < until_when:
            pass

    await client.add_raw_jobs(numbered("compute", 20))
    other = asyncio.create_task(go_round())
    await run(watch, lambda: len(at_rounds) == 20)
    other.cancel()
    assert len(set(at_rounds)) == 20, "the loop went round between any two"
