"""Lines of the log, known by their event; sentences may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

    import pytest


def logged(caplog: pytest.LogCaptureFixture, event: str, **fields: Any) -> list[logging.LogRecord]:
    """The records of this event with these fields, in order."""
    wanted = {"event": event, **fields}
    return [record for record in caplog.records if wanted.items() <= vars(record).items()]
