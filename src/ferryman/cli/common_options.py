"""Parts that commands share: options for output and database, the connection, and the question before a change."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ferryman.cli.command_errors import NotConfirmedError, RowsHiddenError
from ferryman.cli.output import write_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman import App, SyncClient
    from ferryman.cli.output import Report

F = TypeVar("F", bound="Callable[..., Any]")
_CRONTABS = "_private_known_crontabs"


def output_options(command: F) -> F:
    """Add --json and --debug."""
    # `ErrorFormat` reads them from the raw arguments; they are declared here for the help page and the parser.
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON document instead of text.")
    return as_json(debug(command))


def report_command(body: Callable[..., Report]) -> Callable[..., int]:
    """Make `body(…)` a command that writes the report of `body`. It needs no database."""

    @output_options
    @wraps(body)
    def command(*, as_json: bool, **arguments: Any) -> int:
        return write_report(body(**arguments), as_json=as_json)

    return command


def database_command(body: Callable[..., Report]) -> Callable[..., int]:
    """Make `body(client, …)` a command that connects, runs `body` and writes its report.

    If there is an argument `app`, the database is the application's, unless an option names another.
    """

    @click.option("--database-url", metavar="URL", help="Database URL.  [default: DATABASE_URL or PG*]")
    @click.option("--schema", metavar="NAME", help="Schema of the queue.  [default: graphile_worker]")
    @output_options
    @wraps(body)
    def command(*, database_url: str | None, schema: str | None, as_json: bool, **arguments: Any) -> int:
        with _client_of(arguments.get("app"), database_url, schema) as client:
            report = body(client, **arguments)
        return write_report(report, as_json=as_json)

    return command


def _client_of(app: App | None, database_url: str | None, schema: str | None) -> SyncClient:
    from ferryman import SyncClient  # noqa: PLC0415 - commands without a database start sooner

    if app is None:
        return SyncClient(database_url, schema=schema, max_connections=1)
    settings = app.settings
    settings = replace(settings, database_url=database_url or settings.database_url, schema=schema or settings.schema)
    return SyncClient(settings=settings, tasks=app.registry, max_connections=1)


def rows_command(body: Callable[..., Report]) -> Callable[..., int]:
    """Make `body(client, …)` a command that reads jobs. It fails if row security hides them from this role."""
    return _reading_command(body, "the queue", lambda table: table != _CRONTABS)


def crontabs_command(body: Callable[..., Report]) -> Callable[..., int]:
    """Make `body(client, …)` a command that reads crontabs. It fails if row security hides them from this role."""
    return _reading_command(body, "the list of crontabs", lambda table: table == _CRONTABS)


def _reading_command(body: Callable[..., Report], what: str, is_read: Callable[[str], bool]) -> Callable[..., int]:
    @wraps(body)
    def checked(client: SyncClient, **arguments: Any) -> Report:
        if hidden := [table for table in client.hidden_tables() if is_read(table)]:
            raise RowsHiddenError(
                f"row security hides every row of {', '.join(hidden)} from this role, so {what} would look empty. "
                "Nothing was changed. Connect as the owner of the tables, or give the role bypassrls."
            )
        return body(client, **arguments)

    return database_command(checked)


def yes_option(command: F) -> F:
    """Add --yes, for commands that ask before they change something."""
    return click.option("--yes", is_flag=True, help="Change without asking.")(command)


def confirm(warning: str, question: str, *, yes: bool) -> None:
    """Return if the user agrees, or has agreed with --yes; else raise `NotConfirmedError`. --json never asks."""
    if yes:
        return
    if click.get_current_context().params.get("as_json"):
        raise NotConfirmedError(f"{warning} Nothing was changed, because --json never asks. To go ahead, add --yes.")
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
        raise NotConfirmedError(
            "no answer on standard input, so nothing was changed. To skip the question, add --yes."
        ) from None
