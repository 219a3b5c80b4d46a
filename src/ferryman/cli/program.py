"""The top of the command tree."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ferryman.cli.guard import guarded
from ferryman.cli.lazy import LazyGroup
from ferryman.cli.manner import Manner

if TYPE_CHECKING:
    from collections.abc import Sequence


class Program(LazyGroup):
    """The group that turns every exception into a message and an exit code."""

    def main(  # type: ignore[override]  # the overloads tell two modes apart; here there is one
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run and exit. Arguments are taken from the process unless given."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        run = partial(super().main, arguments, prog_name or self.name, **extra)
        sys.exit(guarded(run, Manner.of(arguments)))


@click.group(
    "ferryman",
    cls=Program,
    loads={
        "migrate": ("ferryman.cli.migrate:migrate", "Install the schema, or adopt one that Node or Rust installed."),
        "schema": ("ferryman.cli.schema:schema", "Look at the schema, upgrade it, or take our own objects out."),
        "jobs": ("ferryman.cli.jobs:jobs", "Add, look at and change jobs."),
        "cron": ("ferryman.cli.cron:cron", "Look at schedules, pause and run them."),
        "worker": ("ferryman.cli.worker.command:worker", "Run the jobs of an application."),
        "dev": (
            "ferryman.cli.dev:dev",
            "Run a private PostgreSQL and a worker that restarts when code changes.",
        ),
        "new": ("ferryman.cli.new:new", "Write a small application to start from."),
        "workers": ("ferryman.cli.workers:workers", "Look at workers, and recover the jobs of dead ones."),
        "unlock": ("ferryman.cli.unlock:unlock", "Take all locks away from workers that are certainly dead."),
        "doctor": ("ferryman.cli.doctor:doctor", "Look for what ails the queue or its database, and mend it."),
        "bench": (
            "ferryman.cli.bench.command:bench",
            "Measure Ferryman on your own server, and get advice.",
        ),
        "cleanup": ("ferryman.cli.cleanup:cleanup", "Clear away unused queues, unused tasks or failed jobs."),
        "postgres": ("ferryman.cli.postgres:postgres", "Run a private PostgreSQL until Ctrl-C."),
    },
)
@click.version_option(package_name="ferryman", message="%(prog)s %(version)s")
def program() -> None:
    """Durable background jobs on PostgreSQL, in Graphile Worker's tables.

    The database is the one that --database-url names, or DATABASE_URL, or [tool.ferryman] in pyproject.toml, or
    libpq's PG* variables. The schema is --schema, FERRYMAN_SCHEMA or GRAPHILE_WORKER_SCHEMA.

    \b
    Example:
      ferryman new tasks.py            # a small application to start from
      ferryman dev tasks               # a private PostgreSQL, and a worker for development
      ferryman worker tasks            # a worker for production
      ferryman jobs add greet '{"name": "Ann"}'
    """
