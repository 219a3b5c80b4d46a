"""`ferryman jobs add`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ferryman import JobKeyMode, JobSpec
from ferryman.cli.clean import clean_line
from ferryman.cli.commands import database_command
from ferryman.cli.job_form import job_document
from ferryman.cli.numbers import MAX_ATTEMPTS, PRIORITY
from ferryman.cli.payload import json_payload
from ferryman.cli.tables import timestamp
from ferryman.cli.times import moment
from ferryman.cli.worker.finding import find_app
from ferryman.errors import InvalidPayloadError, UnknownTaskError
from ferryman.jobs import NewJob
from ferryman.payloads import encode_payload

if TYPE_CHECKING:
    from datetime import datetime

    from ferryman import App, Job, SyncClient

_MODES = [mode.value.replace("_", "-") for mode in JobKeyMode]


@dataclass(frozen=True, slots=True)
class AddedReport:
    """The job that was added."""

    job: Job
    exit_code: int = 0

    def document(self) -> object:
        """The whole job."""
        return job_document(self.job)

    def lines(self) -> list[str]:
        """Its id, and when it runs."""
        due = f", due {timestamp(self.job.run_at)}" if self.job.state.value == "scheduled" else ""
        return [f"Added job {self.job.id} for {clean_line(self.job.task_identifier)}{due}."]


@click.command()
@click.argument("identifier")
@click.argument("payload", type=json_payload, required=False)
@click.option(
    "--app",
    type=find_app,
    metavar="MODULE[:APP]",
    help="Check the task and the payload, and take the options that the task has in this application.",
)
@click.option("--queue", metavar="NAME", help="Jobs of one queue run one at a time.")
@click.option(
    "--run-at", type=moment, metavar="TIME", help="Not before this time: ISO 8601 with a zone, or +5m, +1h30m."
)
@click.option("--max-attempts", type=MAX_ATTEMPTS, help="Attempts before the job fails for good.  [default: 25]")
@click.option("--key", metavar="KEY", help="At most one waiting job has a given key.")
@click.option("--key-mode", type=click.Choice(_MODES), help="What to do when the key is taken.  [default: replace]")
@click.option("--priority", type=PRIORITY, help="Smaller runs first.  [default: 0]")
@click.option("--flag", "flags", multiple=True, metavar="FLAG", help="A label; may be given more than once.")
@database_command
def add(
    client: SyncClient,
    *,
    identifier: str,
    payload: Any,
    app: App | None,
    queue: str | None,
    run_at: datetime | None,
    max_attempts: int | None,
    key: str | None,
    key_mode: str | None,
    priority: int | None,
    flags: tuple[str, ...],
) -> AddedReport:
    """Add a job for any task.

    PAYLOAD is JSON, by default {}; `-` reads it from standard input. The task need not be known on this machine. With
    --app it must be a task of the application, whose queue, max_attempts and other options hold unless given here.

    \b
    Example:
      ferryman jobs add send_email '{"to": "a@b.c"}' --queue user:1 --run-at +5m
      ferryman jobs add send_email '{"to": "a@b.c"}' --app tasks
      ferryman jobs add import - < rows.json
    """
    if key_mode is not None and key is None:
        raise click.UsageError("--key-mode says what happens when a key is taken; give the key with --key.")
    spec = JobSpec(
        queue_name=queue,
        run_at=run_at,
        max_attempts=max_attempts,
        job_key=key,
        job_key_mode=None if key_mode is None else JobKeyMode(key_mode.replace("-", "_")),
        priority=priority,
        flags=flags or None,
    )
    if app is None:
        return AddedReport(client.add_raw_job(identifier, payload, spec))
    return AddedReport(client.add_job(_checked(app, identifier, payload), spec))


def _checked(app: App, identifier: str, payload: Any) -> NewJob:
    """The job as the application itself would add it, or an error that says why no worker could run it."""
    payload_json = encode_payload({} if payload is None else payload)
    try:
        task = app.registry.find(identifier)
        task.decode(payload_json)
    except (InvalidPayloadError, UnknownTaskError) as error:
        raise type(error)(f"{error}. Nothing was added.") from None
    except Exception as error:
        raise InvalidPayloadError(
            f"the upgrade of task {task.identifier!r} fails with this payload: {type(error).__name__}: {error}. "
            "Nothing was added."
        ) from error
    return NewJob(task.identifier, payload_json, task.spec_for(payload_json))
