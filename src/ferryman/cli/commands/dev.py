"""The command `ferryman dev`, which runs a private PostgreSQL and a worker while you develop."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from ferryman import SyncClient
from ferryman.cli.commands.local import announce_first_start, announce_running
from ferryman.cli.sanitize import clean_lines
from ferryman.cli.worker.app_finder import AppNotFoundError, check_module
from ferryman.cli.worker.worker_command import run_workers, worker_options
from ferryman.database.addresses import is_embedded, parse_address
from ferryman.embedded import EmbeddedPostgres, make_project_folder
from ferryman.errors import ConfigurationError
from ferryman.settings import Settings

USUAL_FILES = ("tasks.py", "app.py")


@click.command()
@click.argument("target", metavar="[MODULE[:APP]]", required=False)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the private database.  [default: .ferryman/postgres]",
)
@click.option("--database-url", metavar="URL", help="Use this database instead of a private one.")
@worker_options
def dev(*, target: str | None, folder: Path | None, database_url: str | None, **given: Any) -> int:
    """Run a private PostgreSQL and a worker that restarts when code changes.

    MODULE is tasks.py or app.py of this folder by default. The worker uses the private database of this folder, even if
    DATABASE_URL or the application names another, and prints the line that sets DATABASE_URL for other programs. The
    data stays for the next time. With --database-url the worker uses that database instead.

    \b
    Example:
      ferryman dev tasks
      ferryman dev tasks --database-url "$DATABASE_URL"
    """
    if folder is not None and database_url is not None:
        raise click.UsageError(
            "--folder is for the private database, and --database-url for another. Give one of them."
        )
    target = target or _usual_module()
    check_module(target)
    if given["log_jobs"] is None:
        given["log_jobs"] = True
    if database_url is not None:
        return run_workers(reload=True, target=target, database_url=database_url, **given)
    folder = folder or make_project_folder(Path.cwd())
    announce_first_start(folder)
    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        with SyncClient(server.dsn, schema=given["schema"], max_connections=1) as client:
            client.migrate()
        _name_unused(Settings.load().database_url, server.tcp_dsn)
        announce_running(server)
        return run_workers(reload=True, target=target, database_url=server.tcp_dsn, **given)


def _name_unused(url: str | None, used: str) -> None:
    """Say that the worker does not use the database that other commands would use in this folder."""
    if url is None or url == used:
        return
    try:
        place = "an embedded PostgreSQL" if is_embedded(url) else str(parse_address(url))
    except ConfigurationError:
        place = "a database"  # the URL is wrong, but nothing connects to it
    source = "DATABASE_URL" if os.environ.get("DATABASE_URL") else "database_url in pyproject.toml"
    note = f"{source} names {place}, which this worker does not use. To use it, give its URL with --database-url."
    click.echo(clean_lines(note), err=True)


def _usual_module() -> str:
    for file in map(Path, USUAL_FILES):
        if file.is_file():
            return file.stem
    raise AppNotFoundError(
        f"there is no {' or '.join(USUAL_FILES)} in {Path.cwd()}. Name a module, or let `ferryman new` write one."
    )
