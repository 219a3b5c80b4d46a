from __future__ import annotations

import pytest

from tests.crash.conftest import history, site
from tests.recovery.conftest import fleet
from tests.support import waiting

__all__ = ["fleet", "history", "site"]

PATIENCE_SECONDS = 100.0


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults under load may take their time on a busy machine; only what never happens is a failure."""
    monkeypatch.setattr(waiting, "DEADLINE_SECONDS", PATIENCE_SECONDS)
