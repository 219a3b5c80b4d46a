"""What all commands that use the database have in common."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ferryman import SyncClient
from ferryman.cli.failures import NotConfirmedError
from ferryman.cli.reports import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.cli.reports import Report

F = TypeVar("F", bound="Callable[..., Any]")


def output_options(command: F) -> F:
    """Add --json and --debug."""
    # Read by `Manner` from the bare arguments; declared here for the help page and the parser.
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback when something fails.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON document instead of text.")
    return as_json(debug(command))


def database_command(body: Callable[..., Report]) -> Callable[..., int]:
    """Make `body(client, …)` a command: connect, run it, and write its report."""

    @click.option("--database-url", metavar="URL", help="Where the database is.  [default: DATABASE_URL or PG*]")
    @click.option("--schema", metavar="NAME", help="The schema of the queue.  [default: graphile_worker]")
    @output_options
    @wraps(body)
    def command(*, database_url: str | None, schema: str | None, as_json: bool, **arguments: Any) -> int:
        with SyncClient(database_url, schema=schema, max_connections=1) as client:
            report = body(client, **arguments)
        return emit(report, as_json=as_json)

    return command


def yes_option(command: F) -> F:
    """Add --yes, for commands that ask first."""
    return click.option("--yes", is_flag=True, help="Do not ask.")(command)


def confirm(warning: str, question: str, *, yes: bool) -> None:
    """Go on only if the user says so, or has said so with --yes."""
    if yes:
        return
    click.echo(warning, err=True)
    if not _answer(question):
        raise NotConfirmedError("nothing was changed.")


def _answer(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
        click.echo(err=True)
        raise NotConfirmedError("nobody answered, so nothing was changed. To go ahead, add --yes.") from None
