"""A handler that blocks the event loop is named while it does so."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.support.waiting import until
from tests.support.workers import running, worker_of

if TYPE_CHECKING:
    import pytest

    from ferryman import App, Client

PATIENCE = timedelta(milliseconds=50)


class Saved(threading.Event):
    """Set as soon as the log has a warning about the event loop, from whichever thread."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__()
        caplog.set_level("WARNING", "ferryman.worker")
        caplog.handler.addFilter(self._see)

    def _see(self, record: object) -> bool:
        if getattr(record, "event", "") == "loop_blocked":
            self.set()
        return True


async def test_the_log_names_task_job_file_and_line_while_the_loop_is_blocked(
    app: App, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    was_told = Saved(caplog)

    @app.task
    async def hog() -> None:
        was_told.wait(120)  # blocks the loop until the watch has spoken

    line = hog.function.__code__.co_firstlineno + 2
    job = await client.add_job(hog.job())
    async with running(worker_of(app, blocked_loop_threshold=PATIENCE)):
        await until(lambda: "is no longer blocked" in caplog.text.partition("task 'hog'")[2], "the loop went on")

    assert was_told.is_set()
    said = [record.getMessage() for record in caplog.records if "event loop" in record.getMessage()]
    [place] = [place for place, message in enumerate(said) if "task 'hog'" in message]
    told, after = said[place : place + 2]
    assert f"by task 'hog' (job {job.id}), at {__file__}:{line} in hog;" in told
    assert "Make the task a plain `def`" in told
    assert after.startswith("the event loop is no longer blocked, after ")


async def test_a_handler_that_waits_blocks_nobody(app: App, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    async def wait() -> None:
        await asyncio.sleep(2.2)

    await client.add_job(wait.job())
    await worker_of(app, blocked_loop_threshold=timedelta(seconds=1)).run_once()

    assert "task 'wait'" not in caplog.text
