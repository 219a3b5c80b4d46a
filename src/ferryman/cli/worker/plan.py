"""What a worker process is asked to do, in a form that travels from the supervisor to its children."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman import WorkerOptions, WorkerShutdownConfig

if TYPE_CHECKING:
    from ferryman.hooks import HookRegistry


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process. None leaves the choice to the application or to the worker.

    counts: whether to count jobs, for a status line
    """

    target: str
    once: bool = False
    concurrency: int | None = None
    poll_seconds: float | None = None
    grace_seconds: float | None = None
    log_format: str = "text"
    log_level: str = "info"
    database_url: str | None = None
    schema: str | None = None
    debug: bool = False
    counts: bool = False

    def options(self, hooks: HookRegistry) -> WorkerOptions:
        """The options of the worker. Signals are ours: health and systemd must hear of them too."""
        given: dict[str, Any] = {} if self.concurrency is None else {"concurrency": self.concurrency}
        if self.poll_seconds is not None:
            given["poll_interval"] = timedelta(seconds=self.poll_seconds)
        shutdown = WorkerShutdownConfig(listen_os_shutdown_signals=False)
        if self.grace_seconds is not None:
            shutdown = replace(shutdown, grace_period=timedelta(seconds=self.grace_seconds))
        return WorkerOptions(hooks=hooks, shutdown=shutdown, **given)
