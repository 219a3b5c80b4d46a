"""What a worker tells of its event loop."""

from __future__ import annotations

import asyncio

from ferryman.worker.duties.worker_state import LoopLag, Tally


async def test_the_lag_is_that_of_the_last_answer_or_of_the_one_that_is_missing() -> None:
    now = 100.0
    lag = LoopLag(asyncio.get_running_loop(), lambda: now)
    assert lag.seconds() is None
    now = 102.0
    assert lag.seconds() == 2.0, "it has not answered yet"
    now = 103.0
    await asyncio.sleep(0)
    assert lag.seconds() == 3.0, "it took so long to answer"
    await asyncio.sleep(0)
    assert lag.seconds() == 0.0


def test_a_loop_that_is_closed_has_no_lag() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    assert LoopLag(loop).seconds() is None


def test_what_did_not_count_is_neither_done_nor_failed() -> None:
    assert Tally(written=10, failed=2, returned=3).done == 5
