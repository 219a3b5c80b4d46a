"""The tasks of `benchmarks.poison`: some take a while, and some kill the process that runs them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from typing import TYPE_CHECKING

from ferryman import App

if TYPE_CHECKING:
    from collections.abc import Callable

app = App()
DEATHS: dict[str, Callable[[], object]] = {
    "exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),  # as the system does when memory runs out
}


@app.task
async def work() -> None:
    await asyncio.sleep(0.2)


@app.task
async def poison(death: str) -> None:
    DEATHS[death]()
