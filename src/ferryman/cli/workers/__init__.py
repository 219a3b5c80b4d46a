"""`ferryman workers …`."""

import click

from ferryman.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    loads={
        "list": ("ferryman.cli.workers.listing:list_workers", "List workers, and those that were lost."),
        "recover": ("ferryman.cli.workers.recover:recover", "Find dead workers and give their jobs back."),
        "unlock": ("ferryman.cli.workers.unlock:unlock", "Take all locks away from workers that are certainly dead."),
    },
)
def workers() -> None:
    """Look at workers, and recover the jobs of dead ones.

    \b
    Example:
      ferryman workers recover --dry-run
    """
