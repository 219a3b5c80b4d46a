"""Interceptors decide one by one; a broken one neither loses a job nor completes it."""

import asyncio
import contextvars
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ferryman import Fail, Job, JobSpec, JobState
from ferryman.errors import ConfigurationError
from ferryman.hooks import (
    AfterJobRun,
    BeforeJobRun,
    BeforeJobSchedule,
    Continue,
    FailureReason,
    HookRegistry,
    JobRecovery,
    JobRecoveryResult,
    Reject,
    Skip,
)

NOW = datetime(2024, 1, 1, tzinfo=UTC)
JOB = Job(
    id=1,
    task_identifier="send_email",
    payload_json='{"to": "secret"}',
    queue_name=None,
    priority=0,
    run_at=NOW,
    attempts=1,
    max_attempts=25,
    last_error=None,
    created_at=NOW,
    updated_at=NOW,
    key=None,
    locked_at=NOW,
    locked_by="w1",
    revision=0,
    flags=(),
    state=JobState.RUNNING,
)
BEFORE = BeforeJobRun(job=JOB, worker_id="w1", payload={"to": "secret"})
AFTER = AfterJobRun(job=JOB, worker_id="w1", error=None, duration=timedelta(seconds=1))
RECOVERY = JobRecovery(job=JOB, worker_id="w2", previous_worker_id="w1", reason=FailureReason.WORKER_CRASHED)
SCHEDULE = BeforeJobSchedule(identifier="send_email", payload={"to": "secret"}, spec=JobSpec())
EVENTS: list[Any] = [BEFORE, AFTER, RECOVERY, SCHEDULE]


@dataclass(frozen=True)
class Asked:
    """A registry that is asked in one way or the other, so that both ways are held to the same rules."""

    hooks: HookRegistry
    is_blocking: bool

    async def __call__(self, event: Any) -> Any:
        if self.is_blocking:
            return self.hooks.intercept_blocking(event)
        return await self.hooks.intercept(event)


@pytest.fixture(params=[False, True], ids=["async", "blocking"])
def ask(hooks: HookRegistry, request: pytest.FixtureRequest) -> Asked:
    return Asked(hooks, request.param)


@pytest.fixture
def hooks() -> HookRegistry:
    return HookRegistry()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "ferryman.hooks")
    return caplog


def broken(event: object) -> Any:
    raise ValueError("boom")


def answering(answer: object) -> Callable[[object], Any]:
    return lambda _: answer


@pytest.mark.parametrize("answer", ["no hook", None])
async def test_when_no_hook_decides_everything_goes_its_way(ask: Asked, answer: object) -> None:
    for event in EVENTS:
        if answer is None:
            ask.hooks.on(type(event), answering(None))

    answers = [await ask(event) for event in EVENTS]

    assert answers == [Continue(), Continue(), JobRecoveryResult.Default(), Continue({"to": "secret"})]


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        (BEFORE, Skip()),
        (BEFORE, Reject("why")),
        (AFTER, Skip()),
        (AFTER, Reject("why")),
        (SCHEDULE, Skip()),
        (SCHEDULE, Reject("why")),
        (RECOVERY, JobRecoveryResult.Reschedule(NOW, attempts=3)),
        (RECOVERY, JobRecoveryResult.FailWithBackoff()),
        (RECOVERY, JobRecoveryResult.Skip()),
    ],
)
async def test_the_first_decision_is_final(ask: Asked, event: Any, answer: object) -> None:
    asked: list[str] = []
    ask.hooks.on(type(event), lambda _: asked.append("first"))
    ask.hooks.on(type(event), answering(answer))
    ask.hooks.on(type(event), lambda _: asked.append("third"))

    assert await ask(event) == answer
    assert asked == ["first"]


@pytest.mark.parametrize(("event", "answer"), [(BEFORE, Continue()), (RECOVERY, JobRecoveryResult.Default())])
async def test_going_on_is_no_decision(ask: Asked, event: Any, answer: object) -> None:
    decision = Reject("why") if event is BEFORE else JobRecoveryResult.Skip()
    ask.hooks.on(type(event), answering(answer))
    ask.hooks.on(type(event), answering(decision))

    assert await ask(event) == decision


async def test_each_payload_feeds_the_next_hook(ask: Asked) -> None:
    def count(event: BeforeJobSchedule) -> Continue[Any]:
        return Continue({**event.payload, "hooks": event.payload.get("hooks", 0) + 1})

    ask.hooks.on(BeforeJobSchedule, count)
    ask.hooks.on(BeforeJobSchedule, answering(None))
    ask.hooks.on(BeforeJobSchedule, answering(Continue()))
    ask.hooks.on(BeforeJobSchedule, count)

    assert await ask(SCHEDULE) == Continue({"to": "secret", "hooks": 2})
    assert SCHEDULE.payload == {"to": "secret"}


async def test_null_is_a_payload_too(ask: Asked) -> None:
    ask.hooks.on(BeforeJobSchedule, answering(Continue(None)))

    assert await ask(SCHEDULE) == Continue(None)


async def test_a_broken_hook_errs_on_the_safe_side(ask: Asked, log: pytest.LogCaptureFixture) -> None:
    """Do not run, do not add; but what has run has run, and what must be recovered is."""
    for event in EVENTS:
        ask.hooks.on(type(event), broken)
    run, done, recovery, schedule = [await ask(event) for event in EVENTS]

    name = f"hook {__name__}.broken failed"
    assert run == Reject(f"BeforeJobRun {name}: ValueError: boom")
    assert schedule == Reject(f"BeforeJobSchedule {name}: ValueError: boom")
    assert (done, recovery) == (Continue(), JobRecoveryResult.Default())
    assert log.messages == [f"{type(event).__name__} {name}" for event in EVENTS]
    assert "secret" not in log.text


async def test_an_error_after_the_run_leaves_the_decision_to_the_next_hook(ask: Asked) -> None:
    ask.hooks.on(AfterJobRun, broken)
    ask.hooks.on(AfterJobRun, answering(Reject("found by the second")))

    assert await ask(AFTER) == Reject("found by the second")


@pytest.mark.parametrize(
    ("event", "answer", "complaint"),
    [
        (BEFORE, Skip, "the class Skip, not an instance; it takes None, Continue(), Skip() or Reject(message)"),
        (BEFORE, Continue({"to": "secret"}), "Continue with a payload; it takes None, Continue(), Skip() or"),
        (
            BEFORE,
            Fail("why"),
            "ferryman.Fail, which handlers raise; the answers are in ferryman.hooks",
        ),
        (AFTER, True, "a value of type bool"),
        (SCHEDULE, {"to": "secret"}, "a value of type dict; it takes None, Continue(payload)"),
        (RECOVERY, Skip(), "a value of type Skip; it takes None, JobRecoveryResult.Default()"),
        (RECOVERY, JobRecoveryResult(), "a value of type JobRecoveryResult"),
    ],
)
async def test_a_wrong_answer_counts_as_an_error(
    ask: Asked, log: pytest.LogCaptureFixture, event: Any, answer: object, complaint: str
) -> None:
    ask.hooks.on(type(event), answering(answer))

    given = await ask(event)

    assert type(given) is type(event.after_error("of any kind"))
    assert complaint in log.text
    assert "secret" not in log.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, BaseException])
async def test_an_exit_from_an_async_hook_is_an_error_like_others(
    hooks: HookRegistry, log: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    @hooks.on(BeforeJobRun)
    async def leave(event: BeforeJobRun) -> None:
        await asyncio.sleep(0)
        raise error("boom")

    answer = await hooks.intercept(BEFORE)

    assert isinstance(answer, Reject)
    assert f"{error.__name__}: boom" in answer.message
    assert len(log.records) == 1


async def test_cancelling_the_one_who_asks_passes(hooks: HookRegistry, log: pytest.LogCaptureFixture) -> None:
    listening = asyncio.Event()

    @hooks.on(BeforeJobRun)
    async def patient(event: BeforeJobRun) -> None:
        listening.set()
        await asyncio.Event().wait()

    asking = asyncio.create_task(hooks.intercept(BEFORE))
    await listening.wait()
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    assert log.records == []


async def test_an_error_that_cannot_describe_itself_is_contained_too(ask: Asked) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def mute(event: BeforeJobRun) -> None:
        raise MuteError

    ask.hooks.on(BeforeJobRun, mute)

    assert "MuteError" in (await ask(BEFORE)).message


async def test_context_variables_of_a_hook_reach_what_follows(hooks: HookRegistry) -> None:
    request = contextvars.ContextVar("request", default="none")

    @hooks.on(BeforeJobRun)
    async def bind(event: BeforeJobRun) -> None:
        request.set("r1")

    await hooks.intercept(BEFORE)

    assert request.get() == "r1"


def test_blocking_code_refuses_async_hooks_before_it_calls_any(hooks: HookRegistry) -> None:
    called: list[object] = []

    async def enrich(event: BeforeJobSchedule) -> None: ...

    hooks.on(BeforeJobSchedule, called.append)
    hooks.on(BeforeJobSchedule, enrich)

    with pytest.raises(ConfigurationError, match=r"enrich is async, and a blocking client cannot await it"):
        hooks.intercept_blocking(SCHEDULE)
    assert called == []


def test_blocking_code_refuses_a_plain_function_that_returns_a_coroutine(hooks: HookRegistry) -> None:
    async def enrich(event: BeforeJobSchedule) -> None: ...

    hooks.on(BeforeJobSchedule, lambda event: enrich(event))  # noqa: PLW0108 - which hides that it is async

    with pytest.raises(ConfigurationError, match="is async"):
        hooks.intercept_blocking(SCHEDULE)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_exits_leave_blocking_code(hooks: HookRegistry, error: type[BaseException]) -> None:
    def leave(event: BeforeJobSchedule) -> None:
        raise error

    hooks.on(BeforeJobSchedule, leave)

    with pytest.raises(error):
        hooks.intercept_blocking(SCHEDULE)


async def test_a_hook_that_does_not_answer_in_time_counts_as_an_error_and_is_named(
    hooks: HookRegistry, log: pytest.LogCaptureFixture
) -> None:
    @hooks.on(BeforeJobRun, timeout=timedelta(milliseconds=20))
    async def ponder(event: BeforeJobRun) -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(30):
        answer = await hooks.intercept(BEFORE)

    assert isinstance(answer, Reject)
    assert "ponder did not return within 0.02 s" in answer.message
    assert [record.event for record in log.records] == ["hook_timed_out"]


async def test_a_time_limit_of_its_own_that_a_hook_breaks_is_an_error_like_others(hooks: HookRegistry) -> None:
    @hooks.on(BeforeJobRun)
    async def ask(event: BeforeJobRun) -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    answer = await hooks.intercept(BEFORE)

    assert isinstance(answer, Reject)
    assert answer.message.endswith("ask failed: TimeoutError")
