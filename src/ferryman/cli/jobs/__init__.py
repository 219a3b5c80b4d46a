"""`ferryman jobs …`."""

import click

from ferryman.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    loads={
        "add": ("ferryman.cli.jobs.add:add", "Add a job for any task."),
        "list": ("ferryman.cli.jobs.listing:list_jobs", "List jobs, oldest first."),
        "show": ("ferryman.cli.jobs.show:show", "Show everything about a job."),
        "counts": ("ferryman.cli.jobs.counts:counts", "Count jobs by state."),
        "complete": ("ferryman.cli.jobs.complete:complete", "Delete jobs as if they had run."),
        "fail": ("ferryman.cli.jobs.fail:fail", "Let jobs fail for good."),
        "reschedule": ("ferryman.cli.jobs.reschedule:reschedule", "Change when, how soon and how often jobs run."),
        "retry": ("ferryman.cli.jobs.retry:retry", "Let failed jobs run again."),
        "remove": ("ferryman.cli.jobs.remove:remove", "Remove the job that has a key."),
    },
)
def jobs() -> None:
    """Add, look at and change jobs.

    \b
    Example:
      ferryman jobs list --state failed
    """
