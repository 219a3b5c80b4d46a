"""How many children there are, how long they are kept, and how they leave."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.errors import ConfigurationError, PoolClosedError, TaskError
from ferryman.script_guard import importing_for_a_task, refuse_while_importing
from ferryman.worker.running.children.messages import ChildSuccess
from ferryman.worker.running.children.pool import ChildPool, LostBeforeStartError
from tests.support.processes import gone, is_running, noted_pid
from tests.support.waiting import until
from tests.worker.children import slow_to_import, tasks
from tests.worker.children.orders import order_for

if TYPE_CHECKING:
    from pathlib import Path

    from ferryman.worker.running.children.orders import ChildOrder


async def test_a_child_is_used_again(pool: ChildPool) -> None:
    first, second = [await pool.run(order_for(tasks.own_pid)) for _ in range(2)]
    assert first == second


async def test_as_many_run_at_once_as_the_pool_is_large_and_the_rest_wait(pool: ChildPool, tmp_path: Path) -> None:
    notes = [tmp_path / f"{number}" for number in range(3)]
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(pool.run(waiting(note, tmp_path))) for note in notes]
        pids = {await noted_pid(note) for note in notes[:2]}
        assert not notes[2].exists()
        (tmp_path / "go").touch()
    assert [task.result() for task in running] == [ChildSuccess.of(str(note)) for note in notes]
    assert await noted_pid(notes[2]) in pids


async def test_a_child_is_replaced_after_so_many_jobs() -> None:
    async with ChildPool(1, max_jobs=2) as pool:
        pids = [await own_pid(pool) for _ in range(5)]
        assert (pids[0] == pids[1], pids[2] == pids[3], len({*pids})) == (True, True, 3)
        for pid in pids[:4]:
            await gone(pid)


async def test_a_child_that_uses_more_memory_than_it_may_is_replaced_after_its_job() -> None:
    limit = 400 * 1024 * 1024
    async with ChildPool(1, max_memory=limit) as pool:
        first = await own_pid(pool)
        assert await own_pid(pool) == first
        await pool.run(order_for(tasks.keep, size=limit))
        assert await own_pid(pool) != first
        await gone(first)


async def test_an_idle_child_is_dismissed_after_a_while() -> None:
    async with ChildPool(1, idle_timeout=timedelta(seconds=0.01)) as pool:
        await gone(await own_pid(pool))
        await until(lambda: not pool._endings, "nothing left to do")
        assert await pool.run(order_for(tasks.add, a=1, b=2)) == ChildSuccess.of(3)


async def test_the_time_to_import_a_module_is_not_the_time_of_its_task() -> None:
    async with ChildPool(1) as pool:
        order = order_for(slow_to_import.hurry)
        assert await pool.run(order, timedelta(seconds=2)) == ChildSuccess.of("in time")


async def test_an_import_that_takes_too_long_is_ended_and_named() -> None:
    async with ChildPool(1, start_timeout=timedelta(seconds=0.05), kill_grace=timedelta(0)) as pool:
        with pytest.raises(TimeoutError, match=r"^importing '.*slow_to_import' to run .* for more than 0.05 s"):
            await pool.run(order_for(slow_to_import.hurry))


async def test_closing_ends_idle_children_and_lets_busy_ones_finish(tmp_path: Path) -> None:
    pool = ChildPool(2)
    running = asyncio.create_task(pool.run(waiting(tmp_path / "busy", tmp_path)))
    busy = await noted_pid(tmp_path / "busy")
    idle = await own_pid(pool)

    closing = asyncio.create_task(pool.close(timedelta(minutes=1)))
    await gone(idle)
    assert is_running(busy)
    (tmp_path / "go").touch()

    await closing
    assert await running == ChildSuccess.of(str(tmp_path / "busy"))
    assert not is_running(busy)


async def test_closing_ends_busy_children_when_the_grace_is_over(tmp_path: Path) -> None:
    pool = ChildPool(1, kill_grace=timedelta(seconds=0.1))
    running = asyncio.create_task(pool.run(order_for(tasks.loop_in_c, note=str(tmp_path / "loop"))))
    pid = await noted_pid(tmp_path / "loop")
    await pool.close(timedelta(seconds=0.05))
    assert not is_running(pid)
    with pytest.raises(PoolClosedError, match=r"the worker stopped before job \d+ \('loop_in_c'\) finished"):
        await running


async def test_orders_that_wait_for_a_child_are_not_started_any_more(tmp_path: Path) -> None:
    pool = ChildPool(1)
    running = asyncio.create_task(pool.run(waiting(tmp_path / "busy", tmp_path)))
    await noted_pid(tmp_path / "busy")
    queued = asyncio.create_task(pool.run(waiting(tmp_path / "queued", tmp_path)))
    await asyncio.sleep(0)  # it has a place in the queue now
    await pool.close()
    for task in (running, queued):
        with pytest.raises(PoolClosedError):
            await task
    assert not (tmp_path / "queued").exists()


async def test_an_order_that_was_lost_while_it_waited_for_a_child_is_not_handed_over(tmp_path: Path) -> None:
    is_ours = True
    async with ChildPool(1) as pool:
        first = asyncio.create_task(pool.run(waiting(tmp_path / "first", tmp_path)))
        pid = await noted_pid(tmp_path / "first")
        second = asyncio.create_task(
            pool.run(waiting(tmp_path / "second", tmp_path), may_start=lambda: is_ours),
        )
        await asyncio.sleep(0)
        is_ours = False
        (tmp_path / "go").touch()
        await first
        with pytest.raises(LostBeforeStartError):
            await second
        with pytest.raises(LostBeforeStartError):
            await pool.run(order_for(tasks.add, a=1, b=2), may_start=iter([True, False]).__next__)
        assert await own_pid(pool) == pid, "the child has seen nothing of it, and serves others"
    assert not (tmp_path / "second").exists()


async def test_a_closed_pool_can_be_closed_again_and_refuses_orders() -> None:
    pool = ChildPool(1)
    await pool.close()
    await pool.close()
    with pytest.raises(PoolClosedError, match=r"job \d+ \('add'\) was not started"):
        await pool.run(order_for(tasks.add, a=1, b=2))


async def test_signals_that_stop_a_service_leave_running_tasks_alone(pool: ChildPool, tmp_path: Path) -> None:
    running = asyncio.create_task(pool.run(waiting(tmp_path / "busy", tmp_path)))
    pid = await noted_pid(tmp_path / "busy")
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGTERM)
    (tmp_path / "go").touch()
    assert await running == ChildSuccess.of(str(tmp_path / "busy"))


async def test_a_child_inherits_no_files_but_its_own_channel(pool: ChildPool, tmp_path: Path) -> None:
    secret = os.open(tmp_path / "secret", os.O_CREAT)
    with socket.socket() as database:
        for descriptor in (secret, database.fileno()):
            os.set_inheritable(descriptor, True)
        result = await pool.run(order_for(tasks.open_files))
    os.close(secret)
    assert isinstance(result, ChildSuccess)
    assert len([name for name in result.value if name.startswith("socket:")]) == 1
    assert str(tmp_path / "secret") not in result.value


async def test_without_files_to_spare_one_job_fails_and_the_pool_goes_on(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted() -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socketpair", exhausted)
        with pytest.raises(OSError, match="Too many open files"):
            await pool.run(order_for(tasks.add, a=1, b=2))
    assert await pool.run(order_for(tasks.add, a=1, b=2)) == ChildSuccess.of(3)


async def test_without_threads_to_spare_one_job_fails_and_no_process_stays(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(_: object) -> Any:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", exhausted)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await pool.run(order_for(tasks.add, a=1, b=2))
    assert await pool.run(order_for(tasks.add, a=1, b=2)) == ChildSuccess.of(3)


async def test_what_a_task_prints_appears_where_the_worker_prints(
    capfd: pytest.CaptureFixture[str], pool: ChildPool
) -> None:
    await pool.run(order_for(tasks.say, text="hello from below"))
    assert capfd.readouterr().out == "hello from below\n"


def test_a_pool_has_room_for_at_least_one() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        ChildPool(0)


def test_a_worker_does_not_start_while_a_child_imports_its_script() -> None:
    refuse_while_importing()
    with importing_for_a_task("shop.tasks"), pytest.raises(TaskError, match=r"importing 'shop.tasks' starts a worker"):
        refuse_while_importing()


def waiting(note: Path, folder: Path) -> ChildOrder:
    return order_for(tasks.wait_for, note=str(note), until=str(folder / "go"))


async def own_pid(pool: ChildPool) -> int:
    result = await pool.run(order_for(tasks.own_pid))
    assert isinstance(result, ChildSuccess)
    return int(result.value)
