from __future__ import annotations

from tests.crash.conftest import history, site
from tests.recovery.conftest import fleet

__all__ = ["fleet", "history", "site"]
