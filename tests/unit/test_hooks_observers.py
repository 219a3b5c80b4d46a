"""Observers get every event at the same time, and cannot disturb the code that emits it."""

import asyncio
import functools
import logging
from contextlib import suppress
from datetime import timedelta

import pytest

from ferryman.errors import ConfigurationError
from ferryman.hooks import HookRegistry, JobFail, LocalQueueInit, reporting
from tests.support.logs import logged

INIT = LocalQueueInit(worker_id="w1")


@pytest.fixture
def hooks() -> HookRegistry:
    return HookRegistry()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "ferryman.hooks")
    return caplog


async def test_plain_and_async_handlers_receive_the_event(hooks: HookRegistry) -> None:
    seen: list[object] = []

    @hooks.on(LocalQueueInit)
    async def later(event: LocalQueueInit) -> None:
        seen.append(event)

    hooks.on(LocalQueueInit, seen.append)
    await hooks.emit(INIT)

    assert seen == [INIT, INIT]


async def test_an_event_that_nobody_wants_is_no_work(hooks: HookRegistry) -> None:
    seen: list[object] = []
    hooks.on(JobFail, seen.append)

    await hooks.emit(INIT)

    assert seen == []


async def test_handlers_run_together_and_are_awaited_together(hooks: HookRegistry) -> None:
    """Each waits for the other: one after the other they would wait for ever."""
    first, second = asyncio.Event(), asyncio.Event()

    @hooks.on(LocalQueueInit)
    async def one(event: LocalQueueInit) -> None:
        first.set()
        await second.wait()

    @hooks.on(LocalQueueInit)
    async def two(event: LocalQueueInit) -> None:
        await first.wait()
        second.set()

    async with asyncio.timeout(30):
        await hooks.emit(INIT)


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, BaseException])
@pytest.mark.parametrize("is_async", [True, False])
async def test_an_error_is_logged_and_the_others_still_hear(
    hooks: HookRegistry, log: pytest.LogCaptureFixture, error: type[BaseException], is_async: bool
) -> None:
    seen: list[object] = []

    def broken(event: LocalQueueInit) -> None:
        raise error("boom")

    async def broken_later(event: LocalQueueInit) -> None:
        await asyncio.sleep(0)
        raise error("boom")

    hooks.on(LocalQueueInit, broken_later if is_async else broken)
    hooks.on(LocalQueueInit, seen.append)
    await hooks.emit(INIT)

    [record] = log.records
    assert seen == [INIT]
    assert record.name == "ferryman.hooks"
    assert record.getMessage().startswith(f"LocalQueueInit hook {__name__}.test_an_error")
    assert "broken_later" in record.getMessage() or not is_async
    assert record.exc_info is not None
    assert record.exc_info[0] is error


async def test_cancelling_the_teller_cancels_the_handlers_and_passes(
    hooks: HookRegistry, log: pytest.LogCaptureFixture
) -> None:
    listening, ended = asyncio.Event(), asyncio.Event()

    @hooks.on(LocalQueueInit)
    async def patient(event: LocalQueueInit) -> None:
        listening.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    telling = asyncio.create_task(hooks.emit(INIT))
    await listening.wait()
    telling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await telling
    assert ended.is_set()
    assert log.records == []


async def test_a_teller_that_is_cancelled_beforehand_forgets_no_handler(hooks: HookRegistry) -> None:
    """A coroutine that is never awaited would be a warning, and warnings fail tests."""

    @hooks.on(LocalQueueInit)
    async def never(event: LocalQueueInit) -> None:
        pytest.fail("it ran")

    async def tell() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await hooks.emit(INIT)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(tell())


class Listener:
    async def __call__(self, event: LocalQueueInit) -> None:
        raise ValueError

    async def method(self, extra: int, event: LocalQueueInit) -> None:
        raise ValueError


@pytest.mark.parametrize(
    ("handler", "name"),
    [(Listener(), "Listener"), (functools.partial(Listener().method, 1), "Listener.method")],
)
async def test_objects_methods_and_partials_are_named_in_the_log(
    hooks: HookRegistry, log: pytest.LogCaptureFixture, handler: Listener, name: str
) -> None:
    hooks.on(LocalQueueInit, handler)

    await hooks.emit(INIT)

    assert log.messages == [f"LocalQueueInit hook {__name__}.{name} failed"]


async def test_a_handler_over_its_limit_is_cancelled_and_named_and_the_others_are_told(
    hooks: HookRegistry, log: pytest.LogCaptureFixture
) -> None:
    seen: list[object] = []
    was_cancelled = asyncio.Event()

    @hooks.on(LocalQueueInit, timeout=timedelta(milliseconds=20))
    async def hang(event: LocalQueueInit) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")
            was_cancelled.set()

    @hooks.on(LocalQueueInit)
    async def note(event: LocalQueueInit) -> None:
        seen.append(event)

    async with asyncio.timeout(30):
        await hooks.emit(INIT)
        await was_cancelled.wait()

    assert seen == [INIT, "cancelled"]
    [record] = log.records
    assert (record.event, record.hook) == ("hook_timed_out", f"LocalQueueInit hook {__name__}.{hang.__qualname__}")


async def test_a_handler_that_ignores_its_cancellation_keeps_nobody(hooks: HookRegistry) -> None:
    end = asyncio.Event()

    @hooks.on(LocalQueueInit, timeout=timedelta(milliseconds=20))
    async def ignore(event: LocalQueueInit) -> None:
        while not end.is_set():
            with suppress(asyncio.CancelledError):
                await end.wait()

    async with asyncio.timeout(30):
        await hooks.emit(INIT)
    end.set()
    await asyncio.sleep(0)


@pytest.mark.parametrize("timeout", [30, timedelta(), timedelta(seconds=-1)])
def test_a_limit_that_makes_no_sense_is_refused(hooks: HookRegistry, timeout: object) -> None:
    with pytest.raises(ConfigurationError, match="the timeout of a hook is a timedelta above zero"):
        hooks.on(LocalQueueInit, lambda _: None, timeout=timeout)  # type: ignore[arg-type]


async def test_events_are_told_apart_in_order_and_dropped_when_too_many_wait(
    hooks: HookRegistry, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "MOST_EVENTS", 3)
    gate, seen = asyncio.Event(), list[str]()

    @hooks.on(LocalQueueInit)
    async def slow(event: LocalQueueInit) -> None:
        await gate.wait()
        seen.append(event.worker_id)

    teller = reporting.Teller(hooks)
    teller.tell(*(LocalQueueInit(worker_id=name) for name in "abcde"))
    assert [vars(record)["count"] for record in logged(log, "hook_events_dropped")] == [2]
    gate.set()
    await teller.close()
    assert seen == ["a", "b", "c"]
