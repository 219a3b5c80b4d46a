"""`ferryman dev`."""

from __future__ import annotations

import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from ferryman import SyncClient
from ferryman.cli.worker.command import run_workers, worker_options
from ferryman.cli.worker.finding import AppNotFoundError, check_module
from ferryman.embedded import EmbeddedPostgres, default_folder

USUAL_FILES = ("tasks.py", "app.py")


@click.command()
@click.argument("target", metavar="[MODULE[:APP]]", required=False)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Where the database is kept.")
@worker_options
def dev(*, target: str | None, folder: Path | None, **given: Any) -> int:
    """Run a private PostgreSQL and a worker that restarts when code changes.

    Without MODULE, tasks.py or app.py of this folder is taken. The worker uses the private database, whatever the
    application says. The line that it prints tells other programs where that is; the data stays for the next time.

    \b
    Example:
      ferryman dev tasks
    """
    target = target or _usual_module()
    check_module(target)
    if given["log_jobs"] is None:
        given["log_jobs"] = True
    with EmbeddedPostgres(folder or default_folder(), linger=timedelta(0)) as server:
        with SyncClient(server.dsn, schema=given["schema"], max_connections=1) as client:
            client.migrate()
        click.echo(f"PostgreSQL is running in {server.folder}. In another terminal:", err=True)
        click.echo(f"export DATABASE_URL={shlex.quote(server.tcp_dsn)}")
        return run_workers(reload=True, target=target, database_url=server.tcp_dsn, **given)


def _usual_module() -> str:
    for file in map(Path, USUAL_FILES):
        if file.is_file():
            return file.stem
    raise AppNotFoundError(
        f"there is neither {' nor '.join(USUAL_FILES)} in {Path.cwd()}. Name a module, or let `ferryman new` write one."
    )
