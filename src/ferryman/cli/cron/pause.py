"""`ferryman cron pause`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferryman.cli.commands import database_command
from ferryman.cli.cron.schedule_form import ChangedReport

if TYPE_CHECKING:
    from ferryman import SyncClient


@click.command()
@click.argument("identifier")
@database_command
def pause(client: SyncClient, *, identifier: str) -> ChangedReport:
    """Let a schedule of the database add no more jobs.

    Jobs that it has added already stay. Crontabs that workers bring along can only be changed where they are written.

    \b
    Example:
      ferryman cron pause daily-report
    """
    return ChangedReport("Paused", client.schedules.pause(identifier))
