"""The commands `ferryman new`, which writes a first application, and `ferryman postgres`, a private PostgreSQL."""

from __future__ import annotations

import json
import shlex
import signal
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import click

from ferryman.cli.common_options import output_options, report_command
from ferryman.cli.output import Report
from ferryman.cli.sanitize import clean_line
from ferryman.embedded import EmbeddedPostgres, default_folder
from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from types import FrameType

EXAMPLE = '''\
"""Background jobs. Run them with `ferryman worker {module}`."""

from ferryman import App, WorkerContext

app = App()  # the database is the one that DATABASE_URL names


@app.task
async def greet(ctx: WorkerContext, name: str = "world") -> None:
    ctx.logger.info("hello, %s", name)
'''


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("tasks.py"))
@report_command
def new(*, file: Path) -> Report:
    """Write a small application to start from.

    FILE is tasks.py by default. An existing file is never changed.

    \b
    Example:
      ferryman new tasks.py
    """
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise ConfigurationError(f"Python cannot import {str(file)!r}. Choose a name such as tasks.py.")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(EXAMPLE.format(module=file.stem))
    except FileExistsError:
        raise ConfigurationError(f"{str(file)!r} already exists and was not changed. Choose another name.") from None
    folder = "" if file.parent == Path() else f"cd {clean_line(shlex.quote(str(file.parent)))}\n  "
    lines = [
        f"Wrote {clean_line(str(file))}. Run its jobs, with a private PostgreSQL:",
        f"  {folder}ferryman dev {file.stem}",
        "That prints an `export DATABASE_URL=…`. With it, in another terminal, add a job:",
        """  ferryman jobs add greet '{"name": "Ann"}'""",
    ]
    return Report({"file": str(file), "module": file.stem}, lines)


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the data.  [default: in the user's data folder]",
)
@output_options
def postgres(*, folder: Path | None, as_json: bool) -> None:
    """Run a private PostgreSQL until Ctrl-C.

    Prints the line that sets DATABASE_URL for other programs. The password in it is for this server alone, which
    listens on this machine only. The data stays in the folder for the next time. Several programs can share a folder:
    the server stops after the last of them.

    \b
    Example:
      ferryman postgres --folder ./database
    """
    folder = folder or default_folder()
    if not as_json:
        announce_first_start(folder)
    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        received = stop_signals()
        _announce(server, as_json=as_json)
        received.get()
    if not as_json:
        click.echo("Stopped, unless another program still uses it. The data stays.", err=True)


def announce_first_start(folder: Path) -> None:
    """Explain the pause of some seconds in which a new database is created."""
    place = next(each for each in (folder, *folder.parents) if each.exists())
    if place.is_dir() and not (folder / "data").exists():
        click.echo(f"Creating a PostgreSQL database in {folder}. This takes a moment, the first time only.", err=True)


def announce_running(server: EmbeddedPostgres) -> None:
    """Print the line that sets DATABASE_URL for other programs.

    It shows a password, as no other output does: without it nothing could connect. It names TCP, because every driver
    understands that form.
    """
    click.echo(f"PostgreSQL is running in {server.folder}. In another terminal:", err=True)
    click.echo(f"export DATABASE_URL={shlex.quote(server.tcp_dsn)}")


def stop_signals() -> SimpleQueue[int]:
    """Return a queue that gets every SIGINT and SIGTERM from now on."""
    # Not an Event: a signal that arrives while another one is handled, or waited for, would wait for its lock for ever.
    received: SimpleQueue[int] = SimpleQueue()

    def note(number: int, _frame: FrameType | None) -> None:
        received.put(number)

    signal.signal(signal.SIGINT, note)
    signal.signal(signal.SIGTERM, note)
    return received


def _announce(server: EmbeddedPostgres, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"database_url": server.tcp_dsn, "folder": str(server.folder)}))
        return
    announce_running(server)
    click.echo("Stop it with Ctrl-C.", err=True)
