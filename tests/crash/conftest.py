from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.crash_site import CrashSite
from tests.support.history import History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    opened = History(tmp_path / "history.jsonl")
    yield opened
    opened.close()


@pytest.fixture
def site(database: str, history: History) -> Iterator[CrashSite]:
    """A fresh database on the shared server."""
    made = CrashSite(database, history)
    yield made
    made.close()
