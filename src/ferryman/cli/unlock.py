"""`ferryman unlock`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferryman.cli.clean import clean_line
from ferryman.cli.commands import confirm, rows_command, yes_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ferryman import Job, SyncClient

PAGE_SIZE = 10_000
WARNING = (
    "Their jobs may be claimed again at once. A worker that is still alive goes on with them all the same, so that "
    "they would run twice: be certain that these processes are gone."
)


@dataclass(frozen=True, slots=True)
class UnlockReport:
    """The jobs that each worker held."""

    held: Mapping[str, Sequence[int]]

    @property
    def exit_code(self) -> int:
        """1 when none of them held a job."""
        return 0 if any(self.held.values()) else 1

    def document(self) -> object:
        """The ids of the jobs by worker."""
        return {"workers": [{"id": worker, "job_ids": ids} for worker, ids in self.held.items()]}

    def lines(self) -> Iterator[str]:
        """One line for each worker."""
        for worker, ids in self.held.items():
            if ids:
                yield f"Unlocked {clean_line(worker)}: {_listed(ids)} may be claimed again."
            else:
                yield f"{clean_line(worker)} held no job; a queue that it had locked is free now."


@click.command()
@click.argument("worker_ids", metavar="WORKER_ID...", nargs=-1, required=True)
@yes_option
@rows_command
def unlock(client: SyncClient, *, worker_ids: tuple[str, ...], yes: bool) -> UnlockReport:
    """Take all locks away from workers that are certainly dead.

    Their ids are in the last column of `ferryman jobs list --state running`. A worker that is still alive would go on
    with its jobs beside their next owner.

    \b
    Example:
      ferryman unlock worker-0f3a9c
    """
    held = _jobs_held_by(client, worker_ids)
    confirm("\n".join([*_described(held), WARNING]), "Unlock?", yes=yes)
    client.force_unlock_workers(worker_ids)
    return UnlockReport(held)


def _jobs_held_by(client: SyncClient, worker_ids: Sequence[str]) -> dict[str, list[int]]:
    held: dict[str, list[int]] = {worker: [] for worker in worker_ids}
    for job in _running_jobs(client):
        if job.locked_by in held:
            held[job.locked_by].append(job.id)
    return held


def _running_jobs(client: SyncClient) -> Iterator[Job]:
    after: int | None = 0
    while after is not None:
        page = client.list_jobs(state="running", limit=PAGE_SIZE, after=after)
        yield from page.jobs
        after = page.next_after


def _described(held: Mapping[str, Sequence[int]]) -> Iterator[str]:
    for worker, ids in held.items():
        yield f"{clean_line(worker)} holds {_listed(ids) if ids else 'no job'}."


def _listed(ids: Sequence[int]) -> str:
    return f"{'job' if len(ids) == 1 else 'jobs'} {', '.join(map(str, ids))}"
