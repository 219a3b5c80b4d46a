"""Signals that stop a worker process, whichever thread the system gives them to."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from ferryman.cli.early_signals import STOP_SIGNALS
from ferryman.cli.worker.stop_signals import handling

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
async def test_a_signal_wakes_a_loop_that_waits_although_another_thread_takes_it(number: signal.Signals) -> None:
    heard: asyncio.Queue[signal.Signals] = asyncio.Queue()
    with handling(heard.put_nowait):
        # To a thread that is certainly not the loop's, while nothing else wakes the loop.
        sender = threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), number))
        sender.start()
        assert await asyncio.wait_for(heard.get(), 60) == number
        sender.join()


async def test_signals_mean_nothing_after_the_block() -> None:
    heard: list[signal.Signals] = []
    with handling(heard.append):
        pass

    for number in STOP_SIGNALS:
        os.kill(os.getpid(), number)
    await asyncio.sleep(0)

    assert heard == []


async def test_signals_that_were_ignored_before_stay_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    heard: asyncio.Queue[signal.Signals] = asyncio.Queue()
    with handling(heard.put_nowait):
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)

        assert await heard.get() == signal.SIGTERM
