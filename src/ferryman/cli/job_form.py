"""A job as a JSON document."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman import FarTime

if TYPE_CHECKING:
    from ferryman import Job


def job_document(job: Job) -> dict[str, Any]:
    """Every field. The payload is the text that the database holds, byte for byte; times are in UTC."""
    return dict(_plain(name, getattr(job, name)) for name in job.__struct_fields__)


def _plain(name: str, value: Any) -> tuple[str, Any]:
    if name == "payload_json":
        return "payload", msgspec.Raw(value.encode())
    if isinstance(value, FarTime):
        return name, str(value)
    return name, value.astimezone(UTC) if isinstance(value, datetime) else value
