"""`ferryman worker`."""

from __future__ import annotations

import logging
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from ferryman.cli.worker.logs import set_up_logs
from ferryman.cli.worker.plan import Plan
from ferryman.cli.worker.status_line import StatusLine, make_room
from ferryman.cli.worker.supervising import Supervisor
from ferryman.cli.worker.vitals import Vitals
from ferryman.cli.worker.watching import Watch
from ferryman.cli.worker.working import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

logger = logging.getLogger("ferryman.cli")

LEVELS = click.Choice(["debug", "info", "warning", "error"], case_sensitive=False)
MOST_SECONDS = 604_800.0
"""A week."""


class Seconds(click.FloatRange):
    """A length of time that a program can wait for: neither endless nor undefined."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, within its range. What is no number at all is within every range of click's."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return float(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Where probes are answered; nowhere without a port."""

    host: str = "127.0.0.1"
    port: int | None = None


def worker_options(command: F) -> F:
    """Add the options of everything that runs workers."""
    for option in reversed(
        [
            click.option(
                "--concurrency",
                type=click.IntRange(min=1),
                metavar="N",
                envvar="FERRYMAN_CONCURRENCY",
                help="How many jobs run at once, in each process.  [default: number of processors]",
            ),
            click.option(
                "--poll-interval",
                "poll_seconds",
                type=Seconds(0.01, MOST_SECONDS),
                metavar="SECONDS",
                help="How often to look for jobs when none is announced.  [default: 2]",
            ),
            click.option(
                "--grace",
                "grace_seconds",
                type=Seconds(0.0, MOST_SECONDS),
                metavar="SECONDS",
                help="How long running jobs may go on after a signal to stop.  [default: 5]",
            ),
            click.option(
                "--log-format",
                type=click.Choice(["text", "json"]),
                envvar="FERRYMAN_LOG_FORMAT",
                default="text",
                help="Lines for people, or a JSON document on each line.  [default: text]",
            ),
            click.option(
                "--log-level",
                type=LEVELS,
                envvar="FERRYMAN_LOG_LEVEL",
                default="info",
                help="What is worth a line.  [default: info]",
            ),
            click.option(
                "--health-port",
                "health_port",
                type=click.IntRange(0, 65535),
                metavar="PORT",
                help="Answer /livez and /readyz there.",
            ),
            click.option("--health-host", default="127.0.0.1", metavar="HOST", help="[default: 127.0.0.1]"),
            click.option("--schema", metavar="NAME", help="The schema of the queue, whatever the application says."),
            click.option("--debug", is_flag=True, help="Show a traceback when something fails."),
        ]
    ):
        command = option(command)
    return command


@click.command()
@click.argument("target", metavar="MODULE[:APP]")
@click.option("--processes", type=click.IntRange(min=1), default=1, metavar="N", help="[default: 1]")
@click.option("--once", is_flag=True, help="Run what is due, and end.")
@click.option("--reload", is_flag=True, help="Restart when a Python file below this folder changes.")
@click.option("--database-url", metavar="URL", help="Where the database is, whatever the application says.")
@worker_options
def worker(*, processes: int, reload: bool, health_port: int | None, health_host: str, **plan: Any) -> int:
    """Run the jobs of an application.

    MODULE is imported from this folder or the installed packages; APP may be left out when it is called `app`, or is
    the only one. SIGTERM and Ctrl-C let running jobs finish within the grace period; a second one cancels them.

    \b
    Example:
      ferryman worker tasks --processes 4 --concurrency 20
    """
    if plan["once"] and (processes > 1 or reload):
        raise click.UsageError("--once runs in one process and ends: it goes with neither --processes nor --reload.")
    return run_workers(Plan(**plan), Probes(host=health_host, port=health_port), processes=processes, reload=reload)


def run_workers(plan: Plan, probes: Probes, *, processes: int, reload: bool) -> int:
    """Run one worker here, or several under a supervisor; the exit code."""
    everyone = [Vitals() for _ in range(processes)]
    has_status_line = _is_watched() and plan.log_format == "text" and not plan.once
    watch = Watch(everyone, StatusLine(sys.stderr) if has_status_line else None)
    if has_status_line:
        plan = msgspec.structs.replace(plan, counts=True)
        make_room()
    set_up_logs(plan.log_format, plan.log_level)
    _answer_probes(probes, everyone)
    try:
        if processes == 1 and not reload:
            return WorkerProcess(plan, everyone[0], watch.look).run()
        return Supervisor(plan, watch, reload=reload).run()
    finally:
        watch.end()


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _answer_probes(probes: Probes, everyone: list[Vitals]) -> None:
    if probes.port is None:
        return
    from ferryman.cli.worker.health import serve_health  # noqa: PLC0415 - the standard library's server takes its time

    port = serve_health(probes.host, probes.port, lambda: everyone)
    logger.info("health probes are answered at http://%s:%d/livez and /readyz", probes.host, port)
