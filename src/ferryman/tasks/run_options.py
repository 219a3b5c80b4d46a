"""The options for running a task's jobs: where, how long, and what follows a failure or a crash."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypeAlias

import msgspec

from ferryman.errors import TaskError
from ferryman.retries import ON_CRASH, AnyRetryPolicy, GraphileBackoff, OnCrash, RetryPolicy, as_policy

RunIn: TypeAlias = Literal["loop", "thread", "process"]

MOST_CRASHES = 1000


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options for running the jobs of a task.

    run_in: "loop" for async functions, "thread" or "process" for others (default: by the kind of function)
    timeout: how long an attempt may take
    retry: how long a failed job waits for its next attempt
    is_batch: True if a job's payload is a list of items, some of which may fail
    on_crash: what happens to a job whose worker died while it ran (default: the recovery config decides)
    max_crashes: a job fails for good at this many crashes; None: never (default: the recovery config decides)
    """

    run_in: RunIn
    timeout: timedelta | None = None
    retry: RetryPolicy = GraphileBackoff()
    is_batch: bool = False
    on_crash: OnCrash | None = None
    max_crashes: int | msgspec.UnsetType | None = msgspec.UNSET

    def __post_init__(self) -> None:
        _check_max_crashes(self.max_crashes)
        if self.on_crash is not None and self.on_crash not in ON_CRASH:
            raise TaskError(f"on_crash must be one of {', '.join(map(repr, ON_CRASH))}; got {self.on_crash!r}")
        if self.timeout is not None and self.timeout <= timedelta():
            raise TaskError(f"timeout must be a positive timedelta; got {self.timeout}")


def run_options(
    is_async: bool,
    *,
    run_in: str | None = None,
    timeout: timedelta | None = None,
    retry: AnyRetryPolicy | None = None,
    batch: bool = False,
    on_crash: OnCrash | None = None,
    max_crashes: int | msgspec.UnsetType | None = msgspec.UNSET,
) -> RunOptions:
    """Return the options for an async or a blocking function; `TaskError` if they do not fit it."""
    return RunOptions(
        run_in=_checked_run_in(run_in, is_async=is_async),
        timeout=timeout,
        retry=GraphileBackoff() if retry is None else as_policy(retry),
        is_batch=batch,
        on_crash=on_crash,
        max_crashes=max_crashes,
    )


def _check_max_crashes(value: object) -> None:
    if value is None or value is msgspec.UNSET:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_CRASHES:
        raise TaskError(f"max_crashes must be a whole number from 1 to {MOST_CRASHES:,}, or None; got {value!r}")


def _checked_run_in(run_in: str | None, *, is_async: bool) -> RunIn:
    """Check where jobs run; `TaskError` if the function cannot run there."""
    if run_in is None:
        return "loop" if is_async else "thread"
    if run_in not in {"loop", "thread", "process"}:
        raise TaskError(f"run_in must be 'loop', 'thread' or 'process'; got {run_in!r}")
    if run_in == "loop" and not is_async:
        raise TaskError("run_in='loop' is for async functions; a blocking one would stop every other job of the worker")
    if run_in == "thread" and is_async:
        raise TaskError("run_in='thread' is for blocking functions; make it a plain `def`, or run it in the loop")
    return run_in  # type: ignore[return-value]
