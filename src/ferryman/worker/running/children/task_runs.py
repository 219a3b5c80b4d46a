"""Finds a task in this process and runs it."""

from __future__ import annotations

import asyncio
import functools
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferryman.client.shared_clients import SharedClients, lent_by_worker
from ferryman.context import WorkerContext
from ferryman.jobs import NO_SPEC
from ferryman.tasks import Task
from ferryman.tasks.definitions import Definition
from ferryman.tasks.run_options import run_options
from ferryman.tasks.task import made_of
from ferryman.traces import load_tracing
from ferryman.worker.running.batch_results import BatchResult
from ferryman.worker.running.children.child_signals import Terminated
from ferryman.worker.running.children.messages import (
    ChildAsksKeys,
    ChildDecision,
    ChildFailure,
    ChildProgress,
    ChildResult,
    ChildSuccess,
    ChildUsedLease,
)
from ferryman.worker.running.decisions import batch_ending, decided_by, retry_seconds
from ferryman.worker.running.django_connections import with_usable_connections
from ferryman.worker.settling.outcomes import Failed

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from ferryman.client import Client, SyncClient
    from ferryman.worker.running.children.child_clients import ChildClients
    from ferryman.worker.running.children.importing import Modules
    from ferryman.worker.running.children.notes import Notes
    from ferryman.worker.running.children.orders import ChildOrder

_NOT_THE_USERS = (__file__, with_usable_connections.__code__.co_filename, str(Path(asyncio.__file__).parent))


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


def run_task(task: Task[..., Any], order: ChildOrder, notes: Notes, clients: ChildClients) -> ChildResult:
    """Run a task to its end; `notes` take what it has to say before, and `clients` are for its context."""
    try:
        with _resumed(order.traceparent):
            result = _run(task, order, notes, clients)
        if isinstance(result, BatchResult) and isinstance(result.error, BaseException):
            return _after_error(task, order, result.error)
        return _after_batch(task, order, result) if task.running.is_batch else _success(order, result)
    except Terminated:
        raise
    except BaseException as error:  # noqa: BLE001 - `sys.exit()` in a task ends the task, not the process
        return _after_error(task, order, error)


def _after_error(task: Task[..., Any], order: ChildOrder, error: BaseException) -> ChildResult:
    """What the task decided by raising. The retry policy is asked here, where the exception is."""
    error.__traceback__ = _from_users_frame(error.__traceback__)
    decided = decided_by(error, task, order.job.attempts)
    if decided is not None:
        return ChildDecision.of(decided)
    return ChildFailure.of(error, delay=retry_seconds(task, order.job.attempts, error))


def _after_batch(task: Task[..., Any], order: ChildOrder, result: Any) -> ChildResult:
    ending = batch_ending(task, order.job.attempts, order.job.payload_json, result, 0.0)
    return ChildDecision.of(ending) if isinstance(ending, Failed) else ChildSuccess.of(None)


def _success(order: ChildOrder, value: Any) -> ChildResult:
    try:
        return ChildSuccess.of(value)
    except Exception as error:  # noqa: BLE001 - classes may do anything while they are written as JSON
        told = f"{order} returned a value that cannot leave its process: {error}"
        return ChildFailure.saying(f"{told}. Return what JSON can hold, or nothing.")


def _run(task: Task[..., Any], order: ChildOrder, notes: Notes, clients: ChildClients) -> Any:
    if order.lease is not None:
        order.lease.on_use = lambda: notes.tell(ChildUsedLease())
        order.lease.learn_keys = lambda: notes.ask(ChildAsksKeys())
    if task.is_async:
        return asyncio.run(_run_on_loop(task, order, notes, clients))
    client = None if order.queue is None else clients.blocking(order.queue)
    arguments = task.decode(order.job.payload_json, _context(order, notes, cast("Client | None", client)))
    with _lent(task, None, client):
        return with_usable_connections(functools.partial(task.function, *arguments.args, **arguments.kwargs))


async def _run_on_loop(task: Task[..., Any], order: ChildOrder, notes: Notes, clients: ChildClients) -> Any:
    client = None if order.queue is None else clients.for_this_loop(order.queue)
    blocking = None if order.queue is None else clients.blocking(order.queue)
    try:
        arguments = task.decode(order.job.payload_json, _context(order, notes, client))
        with _lent(task, client, blocking):
            return await task.function(*arguments.args, **arguments.kwargs)
    finally:
        if client is not None:
            await client.close()


def _lent(task: Task[..., Any], client: Client | None, blocking: SyncClient | None) -> AbstractContextManager[None]:
    """Let the task add jobs to the queue that its own job is from, whatever this process knows of its application."""
    if blocking is None or not isinstance(task.adder, SharedClients):
        return nullcontext()
    return lent_by_worker(task.adder, client, blocking)


def _resumed(traceparent: str | None) -> AbstractContextManager[object]:
    """The block is part of the attempt's span, if the worker has one."""
    tracing = None if traceparent is None else load_tracing()
    return nullcontext() if tracing is None or traceparent is None else tracing.resume(traceparent)


def _context(order: ChildOrder, notes: Notes, client: Client | None) -> WorkerContext:
    return WorkerContext(
        job=order.job,
        worker_id=order.worker_id,
        client=client,
        lease=order.lease,
        report=lambda fraction, message: notes.tell(ChildProgress(fraction, message)),
    )


def _as_task(found: Any, identifier: str) -> Task[..., Any]:
    if isinstance(found, Task):
        return found
    # A class keeps its name for itself when it is made a task.
    made = made_of(found, identifier)
    if made is not None:
        return made
    definition = Definition(found, None)
    return Task(definition, identifier, NO_SPEC, run_options(definition.is_async))


def _from_users_frame(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that lead to the task."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        inner = inner.tb_next
    return trace if inner is None else inner
