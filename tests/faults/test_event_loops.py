"""Workers on event loops other than the usual one, and context variables of whoever starts them."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import importlib.util
import selectors
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import App, Client
from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman import SyncClient

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(300)


def with_poll() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selectors.PollSelector())


def with_select() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def in_debug_mode() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_debug(True)
    return loop


def with_eager_tasks() -> asyncio.AbstractEventLoop:
    """Tasks take their first step while they are made, as a factory of Python 3.12 lets them."""
    loop = asyncio.SelectorEventLoop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", take_first_step))
    return loop


def take_first_step(loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """The same for Python 3.11: the step that was just planned is taken at once."""
    maker = asyncio.current_task(loop)
    task = asyncio.Task(coroutine, loop=loop, **options)
    if not loop.is_running():
        return task
    step = loop._ready.pop()
    if maker is not None:
        asyncio.tasks._leave_task(loop, maker)
    try:
        step._run()
    finally:
        if maker is not None:
            asyncio.tasks._enter_task(loop, maker)
    return task


def of_uvloop() -> asyncio.AbstractEventLoop:
    return importlib.import_module("uvloop").new_event_loop()


def loops() -> list[Callable[[], asyncio.AbstractEventLoop]]:
    """Those that this Python has. uvloop belongs to them, and must be there, once the project's tests ask for it."""
    found = [with_poll, with_select, in_debug_mode, with_eager_tasks]
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["dev"]
    if importlib.util.find_spec("uvloop") or any(name.startswith("uvloop") for name in wanted):
        found.append(of_uvloop)
    return found


@pytest.mark.parametrize("make_loop", loops(), ids=lambda make: make.__name__)
def test_a_worker_runs_every_kind_of_job_and_ends_on_any_event_loop(
    database: str, sync_client: SyncClient, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    ran: list[tuple[str, int]] = []
    app = App(database)

    @app.task
    async def on_the_loop(number: int) -> None:
        await asyncio.sleep(0.001)
        ran.append(("on_the_loop", number))

    @app.task
    async def without_waiting(number: int) -> None:
        ran.append(("without_waiting", number))

    @app.task
    def in_a_thread(number: int) -> None:
        ran.append(("in_a_thread", number))

    async def work() -> None:
        names = ("on_the_loop", "without_waiting", "in_a_thread")
        everything = [(name, number) for name in names for number in range(20)]
        async with Client(database) as client, running(worker_of(app)):
            for name, number in everything:
                await client.add_raw_job(name, {"number": number})
            await until(lambda: sorted(ran) == sorted(everything), "all jobs have run")

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(work())
    assert sync_client.counts().total == 0


whoever = contextvars.ContextVar("whoever", default="nobody")


async def test_context_variables_of_whoever_starts_a_worker_reach_its_handlers_and_no_handler_changes_another_s(
    database: str, client: Client
) -> None:
    seen: list[tuple[str, str]] = []
    app = App(database)

    @app.task
    async def on_the_loop() -> None:
        seen.append(("on_the_loop", whoever.get()))
        whoever.set("a handler")

    @app.task
    def in_a_thread() -> None:
        seen.append(("in_a_thread", whoever.get()))
        whoever.set("a handler")

    whoever.set("the caller")
    for _ in range(3):
        await client.add_raw_job("on_the_loop")
        await client.add_raw_job("in_a_thread")

    await worker_of(app, concurrency=1).run_once()

    assert sorted(seen) == [("in_a_thread", "the caller")] * 3 + [("on_the_loop", "the caller")] * 3
    assert whoever.get() == "the caller"
