"""Claims by name."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from ferryman import Job


def claim_of(job_id: int, worker_id: str | None, locked_at: datetime | None) -> str:
    """A name for a claim; later claims to a job come later in the alphabet."""
    assert locked_at is not None
    return f"{locked_at.astimezone(UTC).isoformat(timespec='microseconds')} {worker_id} {job_id}"


def claim_of_job(job: Job) -> str:
    """The name of the claim under which a job runs."""
    return claim_of(job.id, job.locked_by, job.locked_at)
