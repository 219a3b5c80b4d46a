"""Finds a task in this process and runs it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferryman.context import WorkerContext
from ferryman.jobs import NO_SPEC
from ferryman.tasks import Task
from ferryman.tasks.definitions import Definition
from ferryman.tasks.running import run_options
from ferryman.worker.children.results import (
    ChildAsksKeys,
    ChildFailure,
    ChildProgress,
    ChildResult,
    ChildSuccess,
    ChildUsedLease,
)
from ferryman.worker.children.signals import Terminated

if TYPE_CHECKING:
    from types import TracebackType

    from ferryman.worker.children.importing import Modules
    from ferryman.worker.children.notes import Notes
    from ferryman.worker.children.orders import ChildOrder

_NOT_THE_USERS = (__file__, str(Path(asyncio.__file__).parent))


def find_task(order: ChildOrder, modules: Modules) -> Task[..., Any] | ChildFailure:
    """The task of an order, or why it cannot be had."""
    try:
        return _as_task(order.place.find(modules.load(order.place.module)), order.identifier)
    except Terminated:
        raise
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, `sys.exit()` included
        error.__traceback__ = _from_users_frame(error.__traceback__)
        reason = f"{type(error).__name__}: {error}"
        return ChildFailure.of(error, f"a child process cannot import task {str(order.place)!r}: {reason}")


def run_task(task: Task[..., Any], order: ChildOrder, notes: Notes) -> ChildResult:
    """Run a task to its end; `notes` take what it has to say before."""
    try:
        return ChildSuccess(_run(task, order, notes))
    except Terminated:
        raise
    except BaseException as error:  # noqa: BLE001 - `sys.exit()` in a task ends the task, not the process
        error.__traceback__ = _from_users_frame(error.__traceback__)
        return ChildFailure.of(error)


def _run(task: Task[..., Any], order: ChildOrder, notes: Notes) -> Any:
    if order.lease is not None:
        order.lease.on_use = lambda: notes.tell(ChildUsedLease())
        order.lease.learn_keys = lambda: notes.ask(ChildAsksKeys())
    context = WorkerContext(
        job=order.job,
        worker_id=order.worker_id,
        lease=order.lease,
        report=lambda fraction, message: notes.tell(ChildProgress(fraction, message)),
    )
    arguments = task.decode(order.job.payload_json, context)
    called = task.function(*arguments.args, **arguments.kwargs)
    return asyncio.run(called) if task.is_async else called


def _as_task(found: Any, identifier: str) -> Task[..., Any]:
    # A class keeps its name for itself when it is made a task, so the task is made again.
    if isinstance(found, Task):
        return found
    definition = Definition(found, None)
    return Task(definition, identifier, NO_SPEC, run_options(definition.is_async))


def _from_users_frame(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that lead to the task."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        inner = inner.tb_next
    return trace if inner is None else inner
