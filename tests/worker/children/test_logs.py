"""What a child logs is logged by its worker."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman.errors import WorkerCrashed
from ferryman.worker.running.children.log_records import hand_on
from ferryman.worker.running.children.messages import ChildLog, ChildSuccess
from tests.support.processes import gone, noted_pid
from tests.worker.children import tasks
from tests.worker.children.orders import order_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferryman.worker.running.children.messages import ChildNote, ChildResult
    from ferryman.worker.running.children.orders import ChildOrder
    from ferryman.worker.running.children.pool import ChildPool


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Those that a test sets are forgotten afterwards."""
    loggers = [logging.getLogger(name) for name in ("", "tests.children", "tests.quiet")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)
    logging.disable(logging.NOTSET)


def log(note: ChildNote) -> None:
    assert isinstance(note, ChildLog)
    hand_on(note)


async def run(pool: ChildPool, order: ChildOrder) -> ChildResult:
    return await pool.run(order, on_note=log)


async def test_records_arrive_as_they_were_logged(pool: ChildPool, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("tests.quiet").setLevel(logging.ERROR)
    assert await run(pool, order_for(tasks.log_all_sorts)) == ChildSuccess.of(False)
    first, second = caplog.records
    assert (first.name, first.levelname, first.getMessage()) == ("tests.children", "WARNING", "1 one")
    assert first.pathname == tasks.__file__
    assert (first.job_id, first.level) == (7, 3)  # type: ignore[attr-defined]
    assert first.handle.startswith("<built-in function print>")  # type: ignore[attr-defined]
    assert first.odd == "<Unloggable>"  # type: ignore[attr-defined]
    text = logging.Formatter().format(second)
    assert text.startswith("no such key\nTraceback (most recent call last)")
    assert "KeyError: 'key'" in text
    assert "Stack (most recent call last)" in text


async def test_what_the_worker_wants_to_know_is_told_with_each_order(
    pool: ChildPool, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("tests.children").setLevel(logging.DEBUG)
    assert await run(pool, order_for(tasks.log_all_sorts)) == ChildSuccess.of(True)
    assert "only for those who look closely" in caplog.messages
    logging.getLogger("tests.children").setLevel(logging.NOTSET)
    assert await run(pool, order_for(tasks.log_all_sorts)) == ChildSuccess.of(False)
    caplog.clear()
    logging.disable(logging.CRITICAL)
    await run(pool, order_for(tasks.log_all_sorts))
    logging.disable(logging.NOTSET)
    assert caplog.messages == []


async def test_what_is_not_wanted_does_not_leave_the_child(pool: ChildPool) -> None:
    logging.getLogger().setLevel(logging.CRITICAL)
    notes: list[ChildNote] = []
    await pool.run(order_for(tasks.log_all_sorts), on_note=notes.append)
    assert notes == []


async def test_what_was_logged_before_a_crash_arrives_in_order(
    pool: ChildPool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with pytest.raises(WorkerCrashed):
        await run(pool, order_for(tasks.log_and_die, count=500, path=str(tmp_path / "dead")))
    assert caplog.messages == [str(number) for number in range(500)]


async def test_threads_and_finalizers_that_log_at_once_neither_block_nor_mix_up_the_answer(
    pool: ChildPool, caplog: pytest.LogCaptureFixture
) -> None:
    assert await run(pool, order_for(tasks.log_much, count=2_000)) == ChildSuccess.of("done")
    for name in ("tests.main", "tests.thread"):
        assert [r.getMessage() for r in caplog.records if r.name == name] == [str(number) for number in range(2_000)]
    assert any(record.name == "tests.finalizers" for record in caplog.records)


async def test_a_forked_process_does_not_speak_in_the_name_of_the_child(
    pool: ChildPool, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await run(pool, order_for(tasks.log_in_a_fork)) == ChildSuccess.of(None)
    assert caplog.messages == []
    assert capfd.readouterr().err == "from a fork\n"


async def test_a_child_that_logs_all_the_time_leaves_others_their_turn_and_ends_in_time(
    pool: ChildPool, tmp_path: Path
) -> None:
    note = tmp_path / "begun"
    order = order_for(tasks.log_for_ever, note=str(note))
    # Slower than the child, so that there is always something to read.
    chatter = asyncio.create_task(pool.run(order, timedelta(seconds=2), on_note=lambda _: time.sleep(0.001)))
    pid = await noted_pid(note)
    assert await pool.run(order_for(tasks.add, a=1, b=2)) == ChildSuccess.of(3)
    with pytest.raises(TimeoutError, match="ran for more than 2 s"):
        await chatter
    await gone(pid)
