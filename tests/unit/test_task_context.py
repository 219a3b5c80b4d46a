"""The context: found in any place, under any spelling, and never part of the payload."""

from datetime import UTC, datetime
from typing import Annotated, Any, Optional

import pytest

from ferryman import App, Job, JobState, WorkerContext
from ferryman.context import CONTEXT
from ferryman.errors import InvalidPayloadError, TaskError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Job(1, "t", "{}", None, 0, NOW, 1, 25, None, NOW, NOW, None, NOW, "w", 0, (), JobState.RUNNING)
GIVEN = WorkerContext(job=JOB, worker_id="w")


class OwnContext(WorkerContext):
    pass


def first(ctx: WorkerContext, to: str) -> Any:
    return ctx, to


def last(to: str, ctx: WorkerContext) -> Any:
    return ctx, to


def last_with_default(to: str, ctx: WorkerContext = CONTEXT) -> Any:
    return ctx, to


def named_only(to: str, *, ctx: WorkerContext) -> Any:
    return ctx, to


def optional(to: str, ctx: WorkerContext | None = None) -> Any:
    return ctx, to


def old_optional(to: str, ctx: Optional[WorkerContext] = None) -> Any:  # noqa: UP045
    return ctx, to


def quoted(to: str, ctx: "WorkerContext") -> Any:
    return ctx, to


def annotated(to: str, ctx: Annotated[WorkerContext, "ours"]) -> Any:
    return ctx, to


def other_name(worker: WorkerContext, to: str) -> Any:
    return worker, to


def subclass(worker: OwnContext, to: str) -> Any:
    return worker, to


def only_by_name(to, ctx):
    return ctx, to


def only_for_type_checkers(to: str, ctx: "module_of_type_checkers.WorkerContext | None" = None) -> Any:  # noqa: F821
    return ctx, to


SPELLINGS = [
    first,
    last,
    last_with_default,
    named_only,
    optional,
    old_optional,
    quoted,
    annotated,
    other_name,
    subclass,
    only_by_name,
    only_for_type_checkers,
]


@pytest.mark.parametrize("function", SPELLINGS)
def test_every_spelling_gets_the_context_and_keeps_it_out_of_the_payload(function: Any) -> None:
    task = App().task(function)

    job = task.job(to="a@b.c")
    call = task.decode(job.payload_json, GIVEN)

    assert job.payload_json == '{"to":"a@b.c"}'
    assert task.function(*call.args, **call.kwargs) == (GIVEN, "a@b.c")


@pytest.mark.parametrize("function", SPELLINGS)
def test_positions_of_a_job_do_not_count_the_context(function: Any) -> None:
    assert App().task(function).job("a@b.c").payload_json == '{"to":"a@b.c"}'


@pytest.mark.parametrize("function", SPELLINGS)
def test_a_job_cannot_be_given_a_context(function: Any) -> None:
    task = App().task(function)
    name = "worker" if function in {other_name, subclass} else "ctx"

    with pytest.raises(InvalidPayloadError, match=f"argument '{name}' is the context, which the worker passes"):
        task.job(to="a", **{name: GIVEN})


def test_a_task_may_want_only_the_context() -> None:
    @App().task
    def only(ctx: WorkerContext) -> None: ...

    assert only.job().payload_json == "{}"
    assert only.decode("{}", GIVEN).kwargs == {"ctx": GIVEN}


def test_a_parameter_called_ctx_with_another_type_is_an_ordinary_one() -> None:
    @App().task
    def draw(ctx: str, x: int) -> None: ...

    assert draw.job("canvas", 1).payload_json == '{"ctx":"canvas","x":1}'


def test_a_context_leaves_a_structured_parameter_to_take_the_whole_payload() -> None:
    @App().task
    def anything(ctx: WorkerContext, payload: dict[str, int]) -> None: ...

    assert anything.job({"a": 1}).payload_json == '{"a":1}'


def test_two_contexts_are_one_too_many() -> None:
    with pytest.raises(TaskError, match="parameters a, b all ask for the context; only one can"):

        @App().task
        def both(a: WorkerContext, b: WorkerContext) -> None: ...


def test_calling_a_task_runs_the_function_with_the_context_that_is_given() -> None:
    task = App().task(first)

    assert task(GIVEN, "a") == (GIVEN, "a")


def test_the_default_context_says_why_it_is_empty() -> None:
    ctx, _ = App().task(last_with_default)("a")

    assert repr(ctx) == "CONTEXT"
    with pytest.raises(TaskError, match=r"ctx\.job was read, but no worker is running this task"):
        _ = ctx.job


@pytest.mark.parametrize("name", ["task", "schema", "use_local_time"])
def test_what_the_client_knows_of_the_queue_is_not_made_up_without_one(name: str) -> None:
    with pytest.raises(TaskError, match=rf"ctx\.{name} needs the client of the queue"):
        getattr(GIVEN, name)
