"""`ferryman postgres`."""

from __future__ import annotations

import json
import shlex
import signal
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import click

from ferryman.cli.commands import output_options
from ferryman.embedded import EmbeddedPostgres, default_folder

if TYPE_CHECKING:
    from types import FrameType


@click.command()
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Where the data is kept.")
@output_options
def postgres(*, folder: Path | None, as_json: bool) -> None:
    """Run a private PostgreSQL until Ctrl-C.

    It prints the line that tells other programs where it is; the password in it opens only this server, which listens
    on this machine alone. The data stays in the folder for the next time. Several programs may use one folder; the
    server stops after the last of them.

    \b
    Example:
      ferryman postgres --folder ./database
    """
    folder = folder or default_folder()
    if not as_json:
        announce_first_start(folder)
    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        stop = stop_signals()
        _announce(server, as_json=as_json)
        stop.get()
    if not as_json:
        click.echo("Stopped, unless another program uses it. The data stays.", err=True)


def announce_first_start(folder: Path) -> None:
    """Say what takes some seconds, the first time."""
    place = next(each for each in (folder, *folder.parents) if each.exists())
    if place.is_dir() and not (folder / "data").exists():
        click.echo(f"Making a PostgreSQL database in {folder}; this takes a moment, the first time only.", err=True)


def stop_signals() -> SimpleQueue[int]:
    """Every Ctrl-C and polite kill from now on."""
    # Not an Event: a signal that comes while another one is handled, or waited for, would wait for its lock, for ever.
    stop: SimpleQueue[int] = SimpleQueue()

    def ask_to_stop(number: int, _frame: FrameType | None) -> None:
        stop.put(number)

    signal.signal(signal.SIGINT, ask_to_stop)
    signal.signal(signal.SIGTERM, ask_to_stop)
    return stop


def _announce(server: EmbeddedPostgres, *, as_json: bool) -> None:
    # The only place that shows a password: without it nobody could connect. TCP, because every driver takes that form.
    if as_json:
        click.echo(json.dumps({"database_url": server.tcp_dsn, "folder": str(server.folder)}))
        return
    click.echo(f"PostgreSQL is running in {server.folder}. In another terminal:", err=True)
    click.echo(f"export DATABASE_URL={shlex.quote(server.tcp_dsn)}")
    click.echo("Stop it with Ctrl-C.", err=True)
