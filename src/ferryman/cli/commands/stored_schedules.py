"""The commands `ferryman cron list`, `pause`, `resume` and `run`, for schedules in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ferryman.cli.common_options import crontabs_command, database_command
from ferryman.cli.output import NOTHING, Report, bare_table, job_document, timestamp
from ferryman.cli.sanitize import clean_line, clean_lines
from ferryman.cron import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from ferryman import SyncClient
    from ferryman.client.schedules import KnownCrontab, Schedule
    from ferryman.cron import Crontab

COLUMNS = ("identifier", "task", "when", "state", "last", "next")
WHOLE = {"state", "last", "next"}


@click.command("list")
@crontabs_command
def list_schedules(client: SyncClient) -> Report:
    """List schedules, with the last and next time of each.

    Schedules are kept in the database. Crontabs that workers register, Node's included, are listed with their name and
    last time only, because the database knows no more; they stay listed after the last worker has dropped them. Times
    are in UTC.

    \b
    Example:
      ferryman cron list
    """
    schedules, known = client.schedules.list(), client.schedules.known()
    document = {
        "schedules": [_schedule_document(schedule) for schedule in schedules],
        "crontabs_of_workers": [
            {"identifier": crontab.identifier, "known_since": crontab.known_since, "last_run_at": crontab.last_run_at}
            for crontab in known
        ],
    }
    return Report(document, _schedule_lines(schedules, known))


def crontab_document(crontab: Crontab) -> dict[str, Any]:
    """Describe a crontab as values that JSON has, without its payload."""
    return {
        "identifier": crontab.identifier,
        "task": crontab.task_identifier,
        "when": describe(crontab),
        "time_zone": crontab.time_zone,
    }


def _schedule_document(schedule: Schedule) -> dict[str, Any]:
    """Describe a schedule as values that JSON has: its crontab without the payload, and its last and next times."""
    if schedule.readable is None:
        entry = {"identifier": schedule.identifier, "task": None, "when": None, "time_zone": None}
    else:
        entry = crontab_document(schedule.readable)
    return entry | {
        "is_paused": schedule.is_paused,
        "last_run_at": schedule.last_run_at,
        "next_run_at": schedule.next_run_at,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
        "problem": schedule.problem,
    }


def _schedule_lines(schedules: Sequence[Schedule], known: Sequence[KnownCrontab]) -> Iterator[RenderableType]:
    if not schedules and not known:
        yield "There are no schedules, and no worker has registered a crontab yet."
        return
    table = bare_table(*COLUMNS, whole=WHOLE)
    for schedule in schedules:
        table.add_row(
            Text(clean_line(schedule.identifier)),
            NOTHING if schedule.readable is None else Text(clean_line(schedule.readable.task_identifier)),
            _when(schedule),
            _state(schedule),
            timestamp(schedule.last_run_at),
            timestamp(schedule.next_run_at),
        )
    for crontab in known:
        last = timestamp(crontab.last_run_at)
        table.add_row(Text(clean_line(crontab.identifier)), NOTHING, NOTHING, Text("of workers"), last, NOTHING)
    yield table


def _when(schedule: Schedule) -> Text:
    if schedule.readable is None:
        return Text(clean_lines(schedule.problem or ""))
    return Text(describe(schedule.readable))


def _state(schedule: Schedule) -> Text:
    if schedule.readable is None:
        return Text("unreadable", "red")
    return Text("paused", "yellow") if schedule.is_paused else Text("active", "green")


@click.command()
@click.argument("identifier")
@database_command
def pause(client: SyncClient, *, identifier: str) -> Report:
    """Pause a schedule. It adds no jobs until it is resumed.

    Jobs that it has added already stay. A crontab that workers register cannot be paused here: change it where it is
    written.

    \b
    Example:
      ferryman cron pause daily-report
    """
    return _changed_report("Paused", client.schedules.pause(identifier))


@click.command()
@click.argument("identifier")
@database_command
def resume(client: SyncClient, *, identifier: str) -> Report:
    """Resume a paused schedule.

    Times that it missed while it was paused are not made up for.

    \b
    Example:
      ferryman cron resume daily-report
    """
    return _changed_report("Resumed", client.schedules.resume(identifier))


def _changed_report(verb: str, schedule: Schedule) -> Report:
    """Report what was done to a schedule, and what comes next."""
    name, following = clean_line(schedule.identifier), schedule.next_run_at
    if schedule.problem is not None:
        outlook = f"It adds no jobs, because it cannot be read: {clean_lines(schedule.problem)}"
    elif schedule.is_paused:
        outlook = "It adds no jobs until it is resumed."
    else:
        outlook = "It never fires." if following is None else f"Next: {timestamp(following)}."
    return Report(_schedule_document(schedule), [f"{verb} {name}. {outlook}"])


@click.command()
@click.argument("identifier")
@database_command
def run(client: SyncClient, *, identifier: str) -> Report:
    """Add the job of a schedule now.

    This works for a paused schedule too, and does not change when it fires next.

    \b
    Example:
      ferryman cron run daily-report
    """
    job = client.schedules.run_now(identifier)
    return Report(job_document(job), [f"Added job {job.id} for {clean_line(job.task_identifier or '')}."])
