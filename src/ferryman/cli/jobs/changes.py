"""What became of jobs that were to be changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman import JobState
from ferryman.cli.clean import clean_line
from ferryman.cli.job_form import job_document
from ferryman.cli.numbers import JOB_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferryman import Job, SyncClient

ids_argument = click.argument("job_ids", metavar="ID...", type=JOB_ID, nargs=-1, required=True)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A job that was left alone; `reason` is missing, running, not failed or changed."""

    id: int
    reason: str
    locked_by: str | None = None

    @classmethod
    def because_of(cls, job_id: int, job: Job | None, *, failed_only: bool = False) -> Skipped:
        """Judge by what is there now, a moment after the change."""
        if job is None:
            return cls(job_id, "missing")
        if failed_only and job.locked_by is None and job.state is not JobState.FAILED:
            return cls(job_id, "not failed")
        return cls(job_id, "changed" if job.locked_by is None else "running", job.locked_by)

    def told(self) -> str:
        """Why, in a sentence."""
        match self.reason:
            case "missing":
                return f"Skipped {self.id}: there is no such job; it is done, was removed, or never existed."
            case "running":
                return f"Skipped {self.id}: worker {clean_line(self.locked_by or '')} is running it."
            case "not failed":
                return f"Skipped {self.id}: it has not failed for good, and runs without this."
            case _:
                return f"Skipped {self.id}: it was running until just now; try again."


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """Jobs that were changed, and jobs that were not."""

    verb: str
    jobs: Sequence[Job]
    skipped: Sequence[Skipped]
    notes: Sequence[str] = ()
    """What else the reader should know."""

    @classmethod
    def of(
        cls,
        verb: str,
        client: SyncClient,
        wanted: Sequence[int],
        changed: Sequence[Job],
        *,
        failed_only: bool = False,
        notes: Sequence[str] = (),
    ) -> ChangeReport:
        """Find out why jobs are missing from `changed`.

        failed_only: whether only failed jobs are changed
        """
        left = dict.fromkeys(wanted) | {job.id: job for job in changed}
        skipped = [
            Skipped.because_of(job_id, client.get_job(job_id), failed_only=failed_only)
            for job_id, job in left.items()
            if job is None
        ]
        return cls(verb, changed, skipped, notes)

    @property
    def exit_code(self) -> int:
        """1 when nothing was changed."""
        return 0 if self.jobs else 1

    def document(self) -> object:
        """Both lists."""
        skipped = [{"id": item.id, "reason": item.reason, "locked_by": item.locked_by} for item in self.skipped]
        return {"jobs": [job_document(job) for job in self.jobs], "skipped": skipped}

    def lines(self) -> Iterator[str]:
        """What was done, then what was not."""
        if self.jobs:
            noun = "job" if len(self.jobs) == 1 else "jobs"
            yield f"{self.verb} {len(self.jobs)} {noun}: {', '.join(str(job.id) for job in self.jobs)}."
        yield from self.notes
        if not self.jobs and not self.skipped:
            yield "There are no such jobs; nothing was changed."
        for item in self.skipped:
            yield item.told()
