"""What every operation of a client needs to know."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from ferryman.importing import importing, refuse_while_importing
from ferryman.jobs import NO_SPEC, NewJob
from ferryman.payloads import check_size, encode_payload
from ferryman.traces import find_tracing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferryman.database.identifiers import SchemaName
    from ferryman.hooks import HookRegistry
    from ferryman.jobs import JobSpec
    from ferryman.tasks import TaskRegistry
    from ferryman.traces import Tracing


class Core(msgspec.Struct, frozen=True):
    """The part of a client that has nothing to do with connections."""

    schema: SchemaName
    tasks: TaskRegistry
    max_payload_bytes: int
    use_local_time: bool
    hooks: HookRegistry
    is_traced: bool

    @property
    def tracing(self) -> Tracing | None:
        """What tells OpenTelemetry about jobs; None if the program has not loaded it, or the app does not want it."""
        return find_tracing(is_wanted=self.is_traced)

    def new_job(self, job: object, spec: JobSpec | None) -> NewJob:
        """`job` with its final spec: what `Task.job` made, or an instance of a task class."""
        return self.new_jobs([(job, spec)])[0]

    def new_jobs(self, items: Iterable[object | tuple[object, JobSpec | None]]) -> list[NewJob]:
        """The same for many. Jobs that are added together mostly share one spec, which is completed once."""
        jobs: list[NewJob] = []
        given = defaults = completed = NO_SPEC
        for item in items:
            job, spec = item if isinstance(item, tuple) else (item, None)
            made = job if isinstance(job, NewJob) else self.tasks.job_of(job)
            if spec is not None:
                if spec is not given or made.spec is not defaults:
                    given, defaults, completed = spec, made.spec, spec.over(made.spec)
                made = NewJob(made.identifier, made.payload_json, completed)
            jobs.append(self._finished(made))
        return jobs

    def raw_job(self, identifier: str, payload: object, spec: JobSpec | None) -> NewJob:
        """A job for any task identifier, with any JSON payload. None is no payload: an empty object, as in Node."""
        payload_json = "{}" if payload is None else encode_payload(payload)
        return self._finished(NewJob(identifier, payload_json, NO_SPEC if spec is None else spec))

    def _finished(self, job: NewJob) -> NewJob:
        if importing:
            refuse_while_importing("adds a job")
        check_size(job.identifier, job.payload_json, self.max_payload_bytes)
        if self.use_local_time and job.spec.run_at is None:
            run_at = datetime.now(UTC) + (job.spec.delay or timedelta())
            return NewJob(job.identifier, job.payload_json, replace(job.spec, run_at=run_at, delay=None))
        return job
