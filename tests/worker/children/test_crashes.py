"""A child that ends costs one job and nothing else."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman.errors import WorkerCrashed
from ferryman.worker.running.children.messages import ChildSuccess
from ferryman.worker.running.children.pool import ChildPool
from tests.support.processes import gone, is_running, noted_pid
from tests.support.waiting import until
from tests.worker.children import tasks
from tests.worker.children.orders import order_for

if TYPE_CHECKING:
    from pathlib import Path

    from ferryman.worker.running.children.orders import ChildOrder


async def test_a_segfault_is_named_and_the_next_job_gets_a_new_process(pool: ChildPool) -> None:
    order = order_for(tasks.segfault)
    with pytest.raises(WorkerCrashed) as crash:
        await pool.run(order)
    assert str(crash.value) == f"the process that ran {order} was ended by SIGSEGV"
    assert await pool.run(order_for(tasks.add, a=1, b=2)) == ChildSuccess.of(3)


@pytest.mark.parametrize("code", [0, 3])
async def test_a_process_that_ends_itself_is_a_crash_whatever_it_says(pool: ChildPool, code: int) -> None:
    order = order_for(tasks.exit_hard, code=code)
    with pytest.raises(WorkerCrashed) as crash:
        await pool.run(order)
    assert str(crash.value) == f"the process that ran {order} ended itself with exit code {code}"
    assert crash.value.exit_code == code


async def test_a_process_that_is_killed_takes_only_its_own_job_along(pool: ChildPool, tmp_path: Path) -> None:
    files = {"until": str(tmp_path / "go")}
    victim = order_for(tasks.wait_for, note=str(tmp_path / "victim"), **files)
    async with asyncio.TaskGroup() as group:
        doomed = group.create_task(outcome(pool, victim))
        bystander = group.create_task(pool.run(order_for(tasks.wait_for, note=str(tmp_path / "other"), **files)))
        await noted_pid(tmp_path / "other")
        os.kill(await noted_pid(tmp_path / "victim"), signal.SIGKILL)
        crash = await doomed
        (tmp_path / "go").touch()
    assert isinstance(crash, WorkerCrashed)
    assert str(crash).startswith(f"the process that ran {victim} was ended by SIGKILL")
    assert bystander.result() == ChildSuccess.of(str(tmp_path / "other"))


async def test_a_crash_is_noticed_though_a_forked_process_holds_the_channel_open(
    pool: ChildPool, tmp_path: Path
) -> None:
    with pytest.raises(WorkerCrashed, match="exit code 5"):
        await pool.run(order_for(tasks.crash_with_a_fork, note=str(tmp_path / "fork")))
    os.kill(await noted_pid(tmp_path / "fork"), signal.SIGKILL)


async def test_a_child_that_died_while_idle_is_no_fault_of_the_next_job(pool: ChildPool) -> None:
    first = await pool.run(order_for(tasks.own_pid))
    assert isinstance(first, ChildSuccess)
    os.kill(first.value, signal.SIGKILL)  # not waited for: the pool may or may not have noticed
    second = await pool.run(order_for(tasks.own_pid))
    assert isinstance(second, ChildSuccess)
    assert second != first


async def test_a_child_that_died_while_idle_is_forgotten(pool: ChildPool) -> None:
    first = await pool.run(order_for(tasks.own_pid))
    assert isinstance(first, ChildSuccess)
    os.kill(first.value, signal.SIGKILL)
    await until(lambda: not pool._idle and not pool._endings, "the pool notices")


async def test_a_c_loop_that_never_ends_is_killed_when_its_time_is_over(pool: ChildPool, tmp_path: Path) -> None:
    order = order_for(tasks.loop_in_c, note=str(tmp_path / "loop"))
    with pytest.raises(TimeoutError) as late:
        await pool.run(order, timedelta(seconds=2))
    assert str(late.value) == f"{order} ran for more than 2 s; its process was ended"
    assert not is_running(await noted_pid(tmp_path / "loop"))
    assert await pool.run(order_for(tasks.add, a=1, b=2)) == ChildSuccess.of(3)


async def test_a_cancelled_call_comes_back_when_its_process_is_gone(pool: ChildPool, tmp_path: Path) -> None:
    order = order_for(tasks.loop_in_c, note=str(tmp_path / "loop"))
    running = asyncio.create_task(pool.run(order))
    pid = await noted_pid(tmp_path / "loop")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_running(pid)


async def test_a_call_cancelled_twice_does_not_wait_and_the_process_ends_all_the_same(
    pool: ChildPool, tmp_path: Path
) -> None:
    running = asyncio.create_task(pool.run(order_for(tasks.loop_in_c, note=str(tmp_path / "loop"))))
    pid = await noted_pid(tmp_path / "loop")
    running.cancel()
    await until(lambda: bool(pool._endings), "the process being ended")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone(pid)


async def test_a_task_may_tidy_up_before_its_process_is_killed(tmp_path: Path) -> None:
    async with ChildPool(1, kill_grace=timedelta(seconds=30)) as patient:
        order = order_for(tasks.wait_politely, note=str(tmp_path / "begun"), tidied=str(tmp_path / "tidied"))
        running = asyncio.create_task(patient.run(order))
        await noted_pid(tmp_path / "begun")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert (tmp_path / "tidied").exists()


async def test_programs_that_a_task_started_end_with_it(pool: ChildPool, tmp_path: Path) -> None:
    running = asyncio.create_task(pool.run(order_for(tasks.start_a_program, note=str(tmp_path / "program"))))
    program = await noted_pid(tmp_path / "program")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone(program)


def test_a_crash_can_be_pickled() -> None:
    crash = WorkerCrashed("the process ended", -9)
    copy = pickle.loads(pickle.dumps(crash))
    assert (str(copy), copy.exit_code) == ("the process ended", -9)


async def outcome(pool: ChildPool, order: ChildOrder) -> object:
    try:
        return await pool.run(order)
    except WorkerCrashed as crash:
        return crash
