"""What comes back from a child."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from ferryman.worker.running.children.messages import ChildFailure, ChildSuccess
from ferryman.worker.running.children.orders import ChildOrder
from ferryman.worker.running.children.pool import ChildPool
from tests.worker.children import broken_in_children, tasks
from tests.worker.children.orders import job_of, order_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ferryman import Task

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChildPool]:
    """One child for all: nothing that happens here ends it."""
    async with ChildPool(1) as opened:
        yield opened


async def test_a_function_runs_in_another_process_and_returns(pool: ChildPool) -> None:
    assert await pool.run(order_for(tasks.add, a=1, b=2)) == ChildSuccess.of(3)


async def test_an_async_function_runs_on_a_loop_of_its_own(pool: ChildPool) -> None:
    assert await pool.run(order_for(tasks.add_later, a=1, b=2)) == ChildSuccess.of(3)


async def test_a_task_class_runs_with_the_context_of_its_job(pool: ChildPool) -> None:
    order = order_for("multiply", a=6, b=7)
    assert await pool.run(order) == ChildSuccess.of({"product": 42, "job": order.job.id, "worker": "worker-1"})


async def test_a_function_that_kept_its_name_is_found_too(pool: ChildPool) -> None:
    assert await pool.run(order_for(tasks.plain_task, a=4)) == ChildSuccess.of(-4)


@pytest.mark.parametrize("task", [tasks.fail, tasks.fail_later])
async def test_an_exception_comes_back_with_its_traceback(pool: ChildPool, task: Task[..., Any]) -> None:
    failure = await failure_of(pool, order_for(task, text="no such image"))
    assert (failure.error_type, failure.message) == ("LookupError", "no such image")
    assert re.match(r'Traceback .*\n  File "[^"]+/tasks.py", line \d+, in fail', failure.traceback_text)
    assert failure.traceback_text.endswith("LookupError: no such image\n")


async def test_an_exception_that_cannot_be_carried_over_is_described(pool: ChildPool) -> None:
    failure = await failure_of(pool, order_for(tasks.fail_stubbornly))
    assert failure.error_type == "tests.worker.children.tasks.StubbornError"
    assert failure.message == "<the text of StubbornError cannot be made>"


@pytest.mark.parametrize(("task", "error_type"), [(tasks.leave, "SystemExit"), (tasks.interrupt, "KeyboardInterrupt")])
async def test_a_task_that_wants_to_leave_fails_and_its_process_stays(
    pool: ChildPool, task: Task[..., Any], error_type: str
) -> None:
    before = await pool.run(order_for(tasks.own_pid))
    assert (await failure_of(pool, order_for(task))).error_type == error_type
    assert await pool.run(order_for(tasks.own_pid)) == before


async def test_a_value_that_json_cannot_hold_is_a_failure(pool: ChildPool) -> None:
    order = order_for(tasks.return_a_lambda)
    failure = await failure_of(pool, order)
    assert failure.error_type == "TypeError"
    assert failure.message.startswith(f"{order} returned a value that cannot leave its process: ")


async def test_a_payload_that_does_not_fit_is_refused_by_the_task_itself(pool: ChildPool) -> None:
    order = ChildOrder.of(tasks.add, job_of("add", '{"a": 1, "b": "two"}'), "worker-1")
    failure = await failure_of(pool, order)
    assert "payload field 'b'" in failure.message
    assert failure.error_type == "ferryman.errors.InvalidPayloadError"


async def test_a_module_that_cannot_be_imported_is_named_with_the_reason(pool: ChildPool) -> None:
    failure = await failure_of(pool, order_for(broken_in_children.unreachable))
    assert failure.message == (
        "a child process cannot import task 'tests.worker.children.broken_in_children.unreachable': "
        "RuntimeError: no licence for this process"
    )
    assert "broken_in_children.py" in failure.traceback_text


async def test_fifty_megabytes_go_there_and_back(pool: ChildPool) -> None:
    text = "x" * 25_000_000
    assert await pool.run(order_for(tasks.doubled, text=text)) == ChildSuccess.of(text + text)


async def test_a_result_may_be_a_model_and_comes_back_as_plain_values(pool: ChildPool) -> None:
    assert await pool.run(order_for(tasks.return_a_model)) == ChildSuccess.of(
        {"at": "2026-01-01T00:00:00Z", "many": [1, 2**80], "name": "résumé"}
    )


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536, 16 * 1024 * 1024 - 2])
async def test_results_of_every_size_up_to_the_limit_come_back(pool: ChildPool, size: int) -> None:
    result = await pool.run(order_for(tasks.repeated, text="x", count=size))
    assert isinstance(result, ChildSuccess), result
    assert result.value == "x" * size


async def test_a_result_beyond_the_limit_is_a_failure_and_the_process_stays(pool: ChildPool) -> None:
    before = await pool.run(order_for(tasks.own_pid))
    failure = await failure_of(pool, order_for(tasks.repeated, text="x", count=16 * 1024 * 1024 - 1))
    assert "16,777,217 bytes, and at most 16,777,216 can leave its process" in failure.message
    assert await pool.run(order_for(tasks.own_pid)) == before


async def failure_of(pool: ChildPool, order: ChildOrder) -> ChildFailure:
    result = await pool.run(order)
    assert isinstance(result, ChildFailure), result
    return result
