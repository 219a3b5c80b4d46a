"""`ferryman cron …`."""

import click

from ferryman.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    loads={
        "check": ("ferryman.cli.cron.check:check", "Say what is wrong with a crontab, or what it means."),
        "next": ("ferryman.cli.cron.upcoming:upcoming", "Say when schedules fire next."),
        "list": ("ferryman.cli.cron.listing:list_schedules", "List schedules, and when they fired and fire."),
        "pause": ("ferryman.cli.cron.pause:pause", "Let a schedule of the database add no more jobs."),
        "resume": ("ferryman.cli.cron.resume:resume", "Let a paused schedule go on."),
        "run": ("ferryman.cli.cron.run:run", "Add the job of a schedule of the database now."),
    },
)
def cron() -> None:
    """Look at schedules, pause and run them.

    \b
    Example:
      ferryman cron next "0 8 * * 1-5"
    """
