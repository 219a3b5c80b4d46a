"""`ferryman schema …`."""

import click

from ferryman.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    loads={
        "status": ("ferryman.cli.schema.status:status", "Say what is installed, and whether Ferryman can use it."),
        "upgrade": ("ferryman.cli.schema.changes:upgrade", "Take the schema to revision 20 of Graphile Worker."),
        "uninstall-extensions": (
            "ferryman.cli.schema.changes:uninstall_extensions",
            "Drop Ferryman's own objects, and leave Graphile's as they are.",
        ),
        "give-way": (
            "ferryman.cli.schema.giving_way:give_way",
            "Let a Rust worker migrate a schema of Node 0.16 or 0.17.",
        ),
    },
)
def schema() -> None:
    """Look at the schema, upgrade it, or take our own objects out.

    \b
    Example:
      ferryman schema status
    """
