"""`ferryman cron resume`."""

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
def resume(client: SyncClient, *, identifier: str) -> ChangedReport:
    """Let a paused schedule go on.

    What it missed meanwhile is not made up for.

    \b
    Example:
      ferryman cron resume daily-report
    """
    return ChangedReport("Resumed", client.schedules.resume(identifier))
