"""The options of one worker process, in a form that travels from the supervisor to its children."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman import WorkerOptions, WorkerRecoveryConfig
from ferryman.cli.command_errors import ErrorFormat
from ferryman.errors import ConfigurationError
from ferryman.worker import LocalQueueConfig

if TYPE_CHECKING:
    from ferryman import App
    from ferryman.hooks import HookRegistry


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one worker process. None leaves the choice to the application or to the worker.

    queue_size: how many jobs to claim ahead of the free slots; 0 for none
    tasks, not_tasks: which tasks to run; both empty leave the choice, too
    forbidden_flags: empty leaves the choice, too
    counts: True if jobs are counted, for a status line
    probes: True if the process asks whether the database answers, for /readyz
    log_lock: the descriptor of the lock that processes hold while they write a line; see `LogLock`
    """

    target: str
    once: bool = False
    concurrency: int | None = None
    queue_size: int | None = None
    poll_seconds: float | None = None
    grace_seconds: float | None = None
    max_connections: int | None = None
    max_jobs: int | None = None
    max_memory: int | None = None
    child_max_jobs: int | None = None
    child_max_memory: int | None = None
    tasks: tuple[str, ...] = ()
    not_tasks: tuple[str, ...] = ()
    forbidden_flags: tuple[str, ...] = ()
    no_listen: bool = False
    no_recovery: bool = False
    loop: str = "auto"
    log_format: str = "text"
    log_level: str = "info"
    log_jobs: bool | None = None
    verbose: bool = False
    database_url: str | None = None
    schema: str | None = None
    debug: bool = False
    counts: bool = False
    probes: bool = False
    log_lock: int | None = None

    @property
    def error_format(self) -> ErrorFormat:
        """How to report an error."""
        return ErrorFormat(debug=self.debug, as_log=self.log_format == "json")

    @property
    def needs_replacing(self) -> bool:
        """True if the process ends by itself and must be replaced."""
        return not self.once and (self.max_jobs is not None or self.max_memory is not None)

    def options(self, app: App, *, hooks: HookRegistry) -> WorkerOptions:
        """Return the options of the worker: the command line's, else the application's; with hooks added.

        The worker handles no signals: the command does, because probes and systemd must know of them too.
        """
        asked = _options_of(app)
        shutdown = replace(asked.shutdown, listen_os_shutdown_signals=False)
        if self.grace_seconds is not None:
            shutdown = replace(shutdown, grace_period=timedelta(seconds=self.grace_seconds))
        return replace(
            asked,
            shutdown=shutdown,
            hooks=hooks.merged(asked.hooks),
            **self._given(asked),
        )

    def _given(self, asked: WorkerOptions) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if self.concurrency is not None:
            given["concurrency"] = self.concurrency
        if self.poll_seconds is not None:
            given["poll_interval"] = timedelta(seconds=self.poll_seconds)
        for name in ("max_connections", "max_jobs", "max_memory", "child_max_jobs", "child_max_memory", "log_jobs"):
            if getattr(self, name) is not None:
                given[name] = getattr(self, name)
        if self.tasks or self.not_tasks:
            given |= {"tasks": self.tasks or None, "not_tasks": self.not_tasks}
        if self.forbidden_flags:
            given["forbidden_flags"] = self.forbidden_flags
        if self.no_listen:
            given["use_notification_delivery"] = False
        if self.no_recovery:
            given["recovery"] = WorkerRecoveryConfig(enabled=False)
        if self.queue_size is not None:
            queue = asked.local_queue or LocalQueueConfig()
            given["local_queue"] = replace(queue, size=self.queue_size) if self.queue_size else None
        return given


def _options_of(app: App) -> WorkerOptions:
    asked: object = app.worker_options
    if asked is None:
        return WorkerOptions()
    if not isinstance(asked, WorkerOptions):
        raise ConfigurationError(
            f"App(worker=…) takes WorkerOptions(…); got {type(asked).__name__}. No worker was started."
        )
    return asked
