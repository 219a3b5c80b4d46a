"""Runs a worker's background tasks (duties). One that ends with an error is logged at once and started again."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from ferryman.database.retrying import Retrying
from ferryman.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from ferryman.worker.stopping import Stopping

    Duty = Callable[[], Coroutine[Any, Any, None]]

logger = logging.getLogger("ferryman.worker")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
SECONDS_FOR_FIRST_CLAIM = 1.0
"""How long other duties wait for the first claim: it may be held up, and must not hold them up for longer."""
SECONDS_FOR_FIRST_JOBS = 0.02
"""How long other duties wait after the first claim, so that its jobs start first."""
SECONDS_UNTIL_WELL = 60.0
"""After a duty has run for this long, its next error counts as its first."""


async def keep_doing(duty: Duty, name: str) -> None:
    """Run a duty until it returns or is cancelled."""
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE_SECONDS
    while True:
        begun_at = loop.time()
        try:
            await duty()
        except asyncio.CancelledError as cancelled:
            if _is_cancelled():
                raise
            problem: BaseException = cancelled  # of something that the duty has awaited
        except Exception as error:  # noqa: BLE001 - logged below
            problem = error
        else:
            return
        logger.error(
            "the worker's background task %r stopped with an error; starting it again",
            name,
            exc_info=problem,
            extra={"event": "duty_ended", "duty": name},
        )
        if loop.time() - begun_at >= SECONDS_UNTIL_WELL:
            pause = FIRST_PAUSE_SECONDS
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)


def after_first_claim(duty: Duty, has_claimed: asyncio.Event) -> Duty:
    """Delay a duty until the first jobs have started, so that it takes no connection and no time from them."""

    async def wait_and_do() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_FOR_FIRST_CLAIM):
                await has_claimed.wait()
                await asyncio.sleep(SECONDS_FOR_FIRST_JOBS)
        await duty()

    return wait_and_do


async def persist(duty: Duty, name: str, stop: Stopping) -> None:
    """Retry a duty that the worker cannot do without, until it succeeds or the worker shuts down."""
    retrying = Retrying(name, logger=logger)
    while not stop.begun.is_set():
        acting = asyncio.create_task(duty(), name=name)
        if not await stop.has_done(acting):
            return
        try:
            acting.result()
        except DatabaseError as error:
            await stop.pause(retrying.pause_after(error))
        else:
            retrying.is_over()
            return


def _is_cancelled() -> bool:
    """True if the running task was cancelled.

    A function of its own: a coroutine that keeps its task in a local variable is a cycle, freed only by the garbage
    collector.
    """
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


@asynccontextmanager
async def in_background(duty: Duty, name: str) -> AsyncIterator[None]:
    """Run a duty for as long as the block lasts."""
    task = asyncio.create_task(keep_doing(duty, name), name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            logger.error(
                "the worker's background task %r stopped with an error, and is not started again: the worker ends it",
                name,
                exc_info=task.exception(),
                extra={"event": "duty_ended", "duty": name},
            )
