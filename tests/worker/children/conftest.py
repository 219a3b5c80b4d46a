from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from ferryman.worker.running.children.pool import ChildPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def pool() -> AsyncIterator[ChildPool]:
    """A pool of two, that does not wait long before it kills."""
    async with ChildPool(2, kill_grace=timedelta(seconds=0.3)) as opened:
        yield opened
