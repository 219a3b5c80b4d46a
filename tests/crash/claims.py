"""Claims by name."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


def claim_of(job_id: int, worker_id: str | None, locked_at: datetime | None) -> str:
    """A name for a claim; later claims to a job come later in the alphabet."""
    assert locked_at is not None
    return f"{locked_at.astimezone(UTC).isoformat(timespec='microseconds')} {worker_id} {job_id}"
