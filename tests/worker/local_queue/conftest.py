from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker.local_queue.queue_watch import QueueWatch

if TYPE_CHECKING:
    from ferryman import App


@pytest.fixture
async def watch(app: App) -> QueueWatch:
    """Tasks to run, and a record of what happened."""
    return QueueWatch(app)
