"""Attempts whose worker died, told to a tracing library by the worker that recovers their jobs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

import msgspec

from ferryman.far_times import FarTime
from ferryman.queries.job_rows import job_from_row
from ferryman.traces import with_died

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferryman.database.steps import Row
    from ferryman.jobs import Job
    from ferryman.traces import Processing, Tracing

logger = logging.getLogger("ferryman.recovery")

LARGEST = 100_000
"""Characters of a payload. A larger one is not written anew for the sake of a link."""


class DeadAttempt(msgspec.Struct, frozen=True):
    """An attempt whose worker died."""

    job_id: int
    payload_json: str
    attempts: int
    max_attempts: int
    worker_id: str
    queue_name: str | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """The one that holds this job."""
        return cls(job.id, job.payload_json, job.attempts, job.max_attempts, job.locked_by or "", job.queue_name)


class DeadAttempts(msgspec.Struct, frozen=True):
    """Their spans, which begin before the jobs are recovered, so that the next attempts can be linked to them.

    spans: those that were begun, by job id
    payloads: payloads that name them
    """

    spans: Mapping[int, Processing] = {}
    payloads: Mapping[int, str] = {}

    @classmethod
    def of(cls, tracing: Tracing, rows: Sequence[Row]) -> Self:
        """The attempts at the jobs of these rows, as dead workers hold them.

        Whatever happens here, the jobs are recovered.
        """
        spans: dict[int, Processing] = {}
        payloads: dict[int, str] = {}
        try:
            for job in map(job_from_row, rows):
                if job.locked_at is None or isinstance(job.locked_at, FarTime):
                    continue
                trace, spans[job.id] = tracing.died(job.task_identifier, DeadAttempt.of(job), job.locked_at)
                if trace is not None and len(job.payload_json) <= LARGEST:
                    payloads[job.id] = with_died(job.payload_json, trace)
        except Exception:
            logger.exception("tracing of attempts that died failed", extra={"event": "tracing_failed"})
        return cls(spans, payloads)

    def payload_of(self, job_id: int) -> Mapping[str, str]:
        """For `recover_jobs.sql`: the payload that the next attempt gets, if it is another one."""
        return {"payload": self.payloads[job_id]} if job_id in self.payloads else {}

    def end(self, rows: Sequence[Row]) -> None:
        """Tell of the attempts whose jobs were taken away; rows come from `recover_jobs.sql`. The others live on."""
        for job_id, worker_id, *_, reason, _, _ in rows:
            if job_id in self.spans:
                told = f"WorkerCrashed: worker {worker_id} died while it held this job ({reason})"
                try:
                    self.spans[job_id].end("died", told)
                except Exception:
                    logger.exception("tracing of attempts that died failed", extra={"event": "tracing_failed"})
