"""The command tree, in one table. A command is imported only when it is about to run.

Each command is named as `module:attribute`, with the first line of its help: help pages and shell completion read that
line here, because importing a command for it would import everything that the command needs.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ferryman.cli.command_errors import ErrorFormat, run_and_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from click.shell_completion import CompletionItem


class CommandGroup(click.Group):
    """A group whose commands are `module:attribute` with a line of help, or groups."""

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str] | CommandGroup], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def summary(self, name: str) -> str:
        """Return the first line of a command's help, without importing the command."""
        entry = self._table[name]
        return entry[1] if isinstance(entry, tuple) else str(entry.help).splitlines()[0]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help page if there are no arguments."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command; return None if there is none of that name."""
        entry = self._table.get(cmd_name)
        if not isinstance(entry, tuple):
            return entry
        module, _, attribute = entry[0].partition(":")
        return getattr(import_module(f"{__package__}.{module}"), attribute)  # type: ignore[no-any-return]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or raise an error with the names that there are."""
        if args[0] not in self._table and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"there is no command {args[0]!r}. {self._hint(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def _hint(self, name: str) -> str:
        likely = get_close_matches(name, self._table, n=1)
        return f"Did you mean {likely[0]!r}?" if likely else f"The commands are: {', '.join(self._table)}."

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the commands of the help page, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(name)) for name in self._table])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, without importing any."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

        names = [name for name in self._table if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=self.summary(name)) for name in names), *options]


class Program(CommandGroup):
    """The group that turns every exception into a message and an exit code."""

    def main(  # type: ignore[override]  # the overloads tell two modes apart; here there is one
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run a command and exit. The arguments are those of the process unless given."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        run = partial(super().main, arguments, prog_name or self.name, **extra)
        sys.exit(run_and_report(run, ErrorFormat.wanted_by(arguments)))


def _group(name: str, summary: str, example: str, table: Mapping[str, tuple[str, str] | CommandGroup]) -> CommandGroup:
    return CommandGroup(name, help=f"{summary}\n\n\b\nExample:\n  ferryman {name} {example}", table=table)


_SCHEMA = _group(
    "schema",
    "Show the schema, upgrade it, or remove Ferryman's own objects.",
    "status",
    {
        "status": ("commands.schema_commands:status", "Show what is installed, and whether Ferryman can use it."),
        "upgrade": ("commands.schema_commands:upgrade", "Upgrade the schema to revision 20 of Graphile Worker."),
        "uninstall-extensions": (
            "commands.schema_commands:uninstall_extensions",
            "Drop Ferryman's own objects, and keep Graphile Worker's.",
        ),
        "give-way": (
            "commands.schema_commands:give_way",
            "Make room for a Rust worker to migrate a schema of Node 0.16 or 0.17.",
        ),
    },
)
_JOBS = _group(
    "jobs",
    "Add, show and change jobs.",
    "list --state failed",
    {
        "add": ("commands.job_changes:add", "Add a job for any task."),
        "list": ("commands.job_reading:list_jobs", "List jobs, oldest first."),
        "show": ("commands.job_reading:show", "Show everything about a job."),
        "counts": ("commands.job_reading:counts", "Count jobs by state."),
        "complete": ("commands.job_changes:complete", "Delete jobs as if they had run."),
        "fail": ("commands.job_changes:fail", "Fail jobs for good."),
        "reschedule": ("commands.job_changes:reschedule", "Change the time, the priority or the attempts of jobs."),
        "retry": ("commands.job_changes:retry", "Run failed jobs again."),
        "remove": ("commands.job_changes:remove", "Remove the job with this key."),
    },
)
_CRON = _group(
    "cron",
    "Show schedules, pause them, or run them now.",
    'next "0 8 * * 1-5"',
    {
        "check": ("commands.crontabs:check", "Show the errors in a crontab, or what it means."),
        "next": ("commands.crontabs:upcoming", "Show when schedules fire next."),
        "list": ("commands.stored_schedules:list_schedules", "List schedules, with the last and next time of each."),
        "pause": ("commands.stored_schedules:pause", "Pause a schedule. It adds no jobs until it is resumed."),
        "resume": ("commands.stored_schedules:resume", "Resume a paused schedule."),
        "run": ("commands.stored_schedules:run", "Add the job of a schedule now."),
    },
)
_WORKERS = _group(
    "workers",
    "List workers, and recover the jobs of dead ones.",
    "recover --dry-run",
    {
        "list": ("commands.registered_workers:list_workers", "List registered workers, and lost ones."),
        "recover": ("commands.registered_workers:recover", "Find dead workers and recover their jobs."),
        "unlock": (
            "commands.registered_workers:workers_unlock",
            "Release all locks of workers that you know are dead.",
        ),
    },
)


@click.group(
    "ferryman",
    cls=Program,
    table={
        "migrate": (
            "commands.schema_commands:migrate",
            "Install the schema, or adopt one that Node or Rust installed.",
        ),
        "schema": _SCHEMA,
        "jobs": _JOBS,
        "cron": _CRON,
        "worker": ("worker.worker_command:worker", "Run the jobs of an application."),
        "dev": ("commands.dev:dev", "Run a private PostgreSQL and a worker that restarts when code changes."),
        "new": ("commands.local:new", "Write a small application to start from."),
        "workers": _WORKERS,
        "unlock": ("commands.registered_workers:unlock", "Release all locks of workers that you know are dead."),
        "doctor": ("commands.doctor:doctor", "Check the queue and its database for problems, and repair them."),
        "bench": ("bench.bench_command:bench", "Measure Ferryman on your own server, and get advice."),
        "cleanup": ("commands.cleanup:cleanup", "Delete unused queues, unused tasks or failed jobs."),
        "postgres": ("commands.local:postgres", "Run a private PostgreSQL until Ctrl-C."),
    },
)
@click.version_option(package_name="ferryman", message="%(prog)s %(version)s")
def program() -> None:
    """Durable background jobs on PostgreSQL, in Graphile Worker's tables.

    The database is the first that is set of --database-url, DATABASE_URL, [tool.ferryman] in pyproject.toml and libpq's
    PG* variables; the schema is that of --schema, FERRYMAN_SCHEMA or GRAPHILE_WORKER_SCHEMA.

    \b
    Example:
      ferryman new tasks.py            # a small application to start from
      ferryman dev tasks               # a private PostgreSQL, and a worker for development
      ferryman worker tasks            # a worker for production
      ferryman jobs add greet '{"name": "Ann"}'
    """
