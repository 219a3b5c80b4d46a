from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker.local_queue.stage import Stage

if TYPE_CHECKING:
    from ferryman import App


@pytest.fixture
async def stage(app: App) -> Stage:
    """Tasks to run, and a record of what happened."""
    return Stage(app)
