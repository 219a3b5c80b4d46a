"""What became of jobs that were to be changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.clean import clean_line
from ferryman.cli.job_form import job_document
from ferryman.cli.numbers import JOB_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferryman import Job, SyncClient

ids_argument = click.argument("job_ids", metavar="ID...", type=JOB_ID, nargs=-1, required=True)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A job that was left alone; `reason` is missing, running or changed."""

    id: int
    reason: str
    locked_by: str | None = None

    @classmethod
    def because_of(cls, job_id: int, job: Job | None) -> Skipped:
        """Judge by what is there now, a moment after the change."""
        if job is None:
            return cls(job_id, "missing")
        return cls(job_id, "changed" if job.locked_by is None else "running", job.locked_by)

    def told(self) -> str:
        """Why, in a sentence."""
        match self.reason:
            case "missing":
                return f"Skipped {self.id}: there is no such job; it is done, was removed, or never existed."
            case "running":
                return f"Skipped {self.id}: worker {clean_line(self.locked_by or '')} is running it."
            case _:
                return f"Skipped {self.id}: it was running until just now; try again."


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """Jobs that were changed, and jobs that were not."""

    verb: str
    jobs: Sequence[Job]
    skipped: Sequence[Skipped]

    @classmethod
    def of(cls, verb: str, client: SyncClient, wanted: Sequence[int], changed: Sequence[Job]) -> ChangeReport:
        """Find out why jobs are missing from `changed`."""
        left = dict.fromkeys(wanted) | {job.id: job for job in changed}
        skipped = [Skipped.because_of(job_id, client.get_job(job_id)) for job_id, job in left.items() if job is None]
        return cls(verb, changed, skipped)

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
        for item in self.skipped:
            yield item.told()
