"""The command `ferryman worker`, which runs jobs."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from ferryman.cli.arguments import (
    CONCURRENCY,
    CONNECTIONS,
    JOBS,
    MOST_SECONDS,
    PORT,
    PROCESSES,
    Number,
    Size,
    WholeNumber,
)
from ferryman.cli.event_loops import CHOICES
from ferryman.cli.worker.app_finder import check_module
from ferryman.cli.worker.log_output import LogLock, set_up_logs
from ferryman.cli.worker.plan import Plan
from ferryman.cli.worker.status_board import StatusBoard, StatusLine, write_above_status_line
from ferryman.cli.worker.supervisor import Supervisor
from ferryman.cli.worker.vitals import LONGEST_SILENCE_SECONDS, Vitals
from ferryman.cli.worker.worker_process import WorkerProcess
from ferryman.worker.options import LARGEST_SIZE, LEAST_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

logger = logging.getLogger("ferryman.cli")

MEMORY = Size(LEAST_MEMORY, 2**44)
LEVELS = click.Choice(["debug", "info", "warning", "error"], case_sensitive=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Where probes are answered, and how many seconds an event loop may be silent. Without a port there are none."""

    host: str = "127.0.0.1"
    port: int | None = None
    patience: float = LONGEST_SILENCE_SECONDS


_OPTIONS = [
    click.option(
        "--processes",
        type=PROCESSES,
        default=1,
        metavar="N",
        envvar="FERRYMAN_PROCESSES",
        show_envvar=True,
        help="Number of worker processes. A process that dies is replaced.  [default: 1]",
    ),
    click.option(
        "--concurrency",
        type=CONCURRENCY,
        metavar="N",
        envvar="FERRYMAN_CONCURRENCY",
        show_envvar=True,
        help="Number of jobs that run at once in each process.  [default: number of processors]",
    ),
    click.option(
        "--queue-size",
        type=WholeNumber(0, LARGEST_SIZE),
        metavar="N",
        envvar="FERRYMAN_QUEUE_SIZE",
        show_envvar=True,
        help="Number of jobs that each process claims ahead of its free slots; 0 for none.  [default: 0]",
    ),
    click.option(
        "--poll-interval",
        "poll_seconds",
        type=Number(0.01, MOST_SECONDS, "seconds"),
        metavar="SECONDS",
        envvar="FERRYMAN_POLL_INTERVAL",
        show_envvar=True,
        help="Time between polls for jobs when no notification arrives.  [default: 2]",
    ),
    click.option("--no-listen", is_flag=True, help="Find jobs by polling only. Always on behind a transaction pooler."),
    click.option(
        "--task",
        "tasks",
        multiple=True,
        metavar="NAME",
        help="Run only jobs of this task. Repeatable.  [default: all tasks of the application]",
    ),
    click.option(
        "--not-task",
        "not_tasks",
        multiple=True,
        metavar="NAME",
        help="Leave jobs of this task to other workers. Repeatable.",
    ),
    click.option(
        "--forbidden-flag",
        "forbidden_flags",
        multiple=True,
        metavar="FLAG",
        help="Leave jobs with this flag to other workers. Repeatable.",
    ),
    click.option(
        "--no-recovery",
        is_flag=True,
        help="Turn recovery off: send no heartbeats, and leave dead workers' jobs locked.",
    ),
    click.option(
        "--grace",
        "--grace-period",
        "grace_seconds",
        type=Number(0.0, MOST_SECONDS, "seconds"),
        metavar="SECONDS",
        envvar="FERRYMAN_GRACE_PERIOD",
        show_envvar=True,
        help="How long running jobs may continue after a stop signal.  [default: 5]",
    ),
    click.option(
        "--max-connections",
        type=CONNECTIONS,
        metavar="N",
        help="The most connections in the pool of each process; listening and heartbeats use two more.  [default: 10]",
    ),
    click.option(
        "--max-jobs",
        type=JOBS,
        metavar="N",
        help="Replace a process after it has run this many jobs.  [default: never]",
    ),
    click.option(
        "--max-memory",
        type=MEMORY,
        metavar="SIZE",
        help="Replace a process that uses more memory than this, such as 512M or 2G.  [default: never]",
    ),
    click.option(
        "--child-max-jobs",
        type=JOBS,
        metavar="N",
        help='Replace a child process of run_in="process" tasks after this many jobs.  [default: never]',
    ),
    click.option(
        "--child-max-memory",
        type=MEMORY,
        metavar="SIZE",
        help="Replace a child process that uses more memory than this.  [default: never]",
    ),
    click.option(
        "--loop",
        type=click.Choice(CHOICES),
        envvar="FERRYMAN_LOOP",
        show_envvar=True,
        default="auto",
        help="Event loop of each process; auto is uvloop where it is installed.  [default: auto]",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        envvar="FERRYMAN_LOG_FORMAT",
        show_envvar=True,
        default="text",
        help="Log lines for people, or one JSON document on each line.  [default: text]",
    ),
    click.option(
        "--log-level",
        type=LEVELS,
        envvar="FERRYMAN_LOG_LEVEL",
        show_envvar=True,
        default="info",
        help="Lowest level to log.  [default: info]",
    ),
    click.option(
        "--log-jobs/--no-log-jobs",
        default=None,
        envvar="FERRYMAN_LOG_JOBS",
        show_envvar=True,
        help="Log each completed job, and the traceback of each failed attempt.  [default: only in dev]",
    ),
    click.option("--verbose", is_flag=True, help="Add job_id, task, attempt and other fields to text lines."),
    click.option(
        "--health-port",
        type=PORT,
        metavar="PORT",
        envvar="FERRYMAN_HEALTH_PORT",
        show_envvar=True,
        help="Serve /livez and /readyz on this port.",
    ),
    click.option(
        "--health-host",
        default="127.0.0.1",
        metavar="HOST",
        envvar="FERRYMAN_HEALTH_HOST",
        show_envvar=True,
        help="Address on which to serve them.  [default: 127.0.0.1]",
    ),
    click.option(
        "--stuck-after",
        type=Number(1.0, MOST_SECONDS, "seconds"),
        default=LONGEST_SILENCE_SECONDS,
        metavar="SECONDS",
        help="How long an event loop may be silent before /livez fails.  [default: 30]",
    ),
    click.option("--schema", metavar="NAME", help="Schema of the queue. Overrides the application's."),
    click.option("--debug", is_flag=True, help="Show the traceback of an error."),
]


def worker_options(command: F) -> F:
    """Add the options of all commands that run workers."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("target", metavar="MODULE[:APP]")
@click.option("--once", is_flag=True, help="Run the jobs that are due now, then exit.")
@click.option("--reload", is_flag=True, help="Restart when a Python file below this folder changes.")
@click.option("--database-url", metavar="URL", help="Database URL. Overrides the application's.")
@worker_options
def worker(*, reload: bool, **given: Any) -> int:
    """Run the jobs of an application.

    MODULE is imported from this folder or the installed packages. APP can be omitted if it is called `app` or is the
    only one. Options here override those of App(worker=WorkerOptions(…)). SIGTERM and Ctrl-C let running jobs finish
    within the grace period; a second signal cancels them.

    \b
    Example:
      ferryman worker tasks --processes 4 --concurrency 20
    """
    if given["once"] and reload:
        raise click.UsageError("--once exits when no job is due, so it cannot be combined with --reload.")
    return run_workers(reload=reload, **given)


def run_workers(
    *, reload: bool, processes: int, health_port: int | None, health_host: str, stuck_after: float, **given: Any
) -> int:
    """Run one worker here, or several under a supervisor; return the exit code.

    given: the fields of a `Plan`
    """
    if reload:
        check_module(given["target"])  # a broken module can be repaired meanwhile; a missing one was misspelled
    probes = Probes(host=health_host, port=health_port, patience=stuck_after)
    has_status_line = _is_on_terminal() and given["log_format"] == "text" and not given.get("once")
    plan = Plan(**given, counts=has_status_line, probes=probes.port is not None)
    is_alone = processes == 1 and not reload and not plan.needs_replacing
    log_lock = None if is_alone else LogLock.new()
    everyone = [Vitals() for _ in range(processes)]
    board = StatusBoard(everyone, StatusLine(sys.stderr) if has_status_line else None, patience=probes.patience)
    if has_status_line:
        write_above_status_line()
    set_up_logs(plan.log_format, plan.log_level, verbose=plan.verbose, lock=log_lock)
    _answer_probes(probes, everyone)
    try:
        if log_lock is None:
            return WorkerProcess(plan, everyone[0], board.refresh, board.announce_stop).run()
        return Supervisor(msgspec.structs.replace(plan, log_lock=log_lock.descriptor), board, reload=reload).run()
    finally:
        board.clear()


def _is_on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _answer_probes(probes: Probes, everyone: list[Vitals]) -> None:
    if probes.port is None:
        return
    from ferryman.cli.worker.probes import serve_probes  # noqa: PLC0415 - the standard library's server imports slowly

    port = serve_probes(probes.host, probes.port, everyone, probes.patience)
    host = f"[{probes.host}]" if ":" in probes.host else probes.host
    logger.info(
        "serving health probes at http://%s:%d/livez and /readyz", host, port, extra={"event": "probes_answered"}
    )
