"""The program of a child process: reads orders from its worker, runs their tasks and sends the results."""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import importlib
import logging
import pickle
import socket
import sys
from contextlib import nullcontext, suppress
from multiprocessing import spawn
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferryman.client.shared_clients import SharedClients, lent_by_worker
from ferryman.context import WorkerContext
from ferryman.jobs import NO_SPEC
from ferryman.lifeline import die_with_parent
from ferryman.script_guard import importing_for_a_task
from ferryman.tasks import Task
from ferryman.tasks.definitions import Definition
from ferryman.tasks.run_options import run_options
from ferryman.tasks.task import made_of
from ferryman.traces import load_tracing
from ferryman.worker.running.batch_results import BatchResult
from ferryman.worker.running.children.channel import ChildChannel, read_frame
from ferryman.worker.running.children.child_clients import ChildClients
from ferryman.worker.running.children.child_signals import Terminated, obey_only_the_parent
from ferryman.worker.running.children.log_records import LogCarrier
from ferryman.worker.running.children.messages import (
    ChildAsksKeys,
    ChildDecision,
    ChildFailure,
    ChildProgress,
    ChildResult,
    ChildSuccess,
    ChildUsedLease,
    encode_result,
)
from ferryman.worker.running.decisions import batch_ending, decided_by, retry_seconds
from ferryman.worker.running.django_connections import with_usable_connections
from ferryman.worker.settling.outcomes import Failed

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from ferryman.client import Client, SyncClient
    from ferryman.worker.running.children.orders import ChildOrder

STARTED = b""
"""The message that the task was found and starts: from now on its time counts, and a crash is its own."""

_MAIN_KEYS = ("init_main_from_name", "init_main_from_path")
_NOT_THE_USERS = (__file__, with_usable_connections.__code__.co_filename, str(Path(asyncio.__file__).parent))


def main(descriptor: int, parent_pid: int) -> None:
    """Serve the worker at the other end of the descriptor until it closes."""
    with socket.socket(fileno=descriptor) as channel:
        channel.set_inheritable(False)  # programs that a task starts must not have it
        with suppress(EOFError, ConnectionError, Terminated):  # the worker is done with this child, or gone
            obey_only_the_parent(channel)
            die_with_parent(channel, parent_pid)
            _show_crashes()
            _serve(channel)


def run_task(task: Task[..., Any], order: ChildOrder, channel: ChildChannel, clients: ChildClients) -> ChildResult:
    """Run a task to its end, and return its result.

    channel: takes the notes that the task causes meanwhile
    clients: for the task's context
    """
    try:
        with _resumed(order.traceparent):
            result = _run(task, order, channel, clients)
        if isinstance(result, BatchResult) and isinstance(result.error, BaseException):
            return _after_error(task, order, result.error)
        return _after_batch(task, order, result) if task.running.is_batch else _success(order, result)
    except Terminated:
        raise
    except BaseException as error:  # noqa: BLE001 - `sys.exit()` in a task ends the task, not the process
        return _after_error(task, order, error)


class _Modules:
    """Imports the modules of tasks, as the worker that started this child would."""

    def __init__(self, preparation: dict[str, Any]) -> None:
        self._main = {key: preparation[key] for key in _MAIN_KEYS if key in preparation}
        spawn.prepare({key: value for key, value in preparation.items() if key not in _MAIN_KEYS})

    def load(self, name: str) -> object:
        """Import a module, or return it if it was imported before."""
        with importing_for_a_task(name):
            if name == "__main__":
                self._prepare_main()
                return sys.modules["__main__"]
            return importlib.import_module(name)

    def _prepare_main(self) -> None:
        # Only for a task of the script itself: most scripts import far more than their tasks need.
        if self._main:
            spawn.prepare(self._main)
            self._main = {}


def _serve(channel: socket.socket) -> None:
    logs = LogCarrier()
    logging.getLogger().addHandler(logs)
    clients = ChildClients()
    modules = _Modules(pickle.loads(read_frame(channel)))  # noqa: S301 - from the worker
    while True:
        order: ChildOrder = pickle.loads(read_frame(channel))  # noqa: S301 - from the worker
        order_channel = ChildChannel(channel)
        logs.begin(order.log_levels, order_channel.send_note)
        _carry_out(order, modules, order_channel, clients)


def _carry_out(order: ChildOrder, modules: _Modules, channel: ChildChannel, clients: ChildClients) -> None:
    found = _find_task(order, modules)
    channel.send(STARTED)
    result = found if isinstance(found, ChildFailure) else run_task(found, order, channel, clients)
    message = encode_result(result, order, order.largest_answer)
    _flush()  # what a task printed would be lost if the child were killed while it waits
    channel.end_with(message)


def _find_task(order: ChildOrder, modules: _Modules) -> Task[..., Any] | ChildFailure:
    """Return the task of an order, or a failure with the reason if it cannot be imported."""
    try:
        return _as_task(order.place.find(modules.load(order.place.module)), order.identifier)
    except Terminated:
        raise
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, `sys.exit()` included
        error.__traceback__ = _from_users_frame(error.__traceback__)
        reason = f"{type(error).__name__}: {error}"
        return ChildFailure.of(error, f"a child process cannot import task {str(order.place)!r}: {reason}")


def _as_task(found: Any, identifier: str) -> Task[..., Any]:
    if isinstance(found, Task):
        return found
    # A class keeps its name for itself when it is made a task.
    made = made_of(found, identifier)
    if made is not None:
        return made
    definition = Definition(found, None)
    return Task(definition, identifier, NO_SPEC, run_options(definition.is_async))


def _run(task: Task[..., Any], order: ChildOrder, channel: ChildChannel, clients: ChildClients) -> Any:
    if order.lease is not None:
        order.lease.on_use = lambda: channel.send_note(ChildUsedLease())
        order.lease.learn_keys = lambda: channel.ask(ChildAsksKeys())
    if task.is_async:
        return asyncio.run(_run_on_loop(task, order, channel, clients))
    client = None if order.queue is None else clients.blocking(order.queue)
    arguments = task.decode(order.job.payload_json, _context(order, channel, cast("Client | None", client)))
    with _lent(task, None, client):
        return with_usable_connections(functools.partial(task.function, *arguments.args, **arguments.kwargs))


async def _run_on_loop(task: Task[..., Any], order: ChildOrder, channel: ChildChannel, clients: ChildClients) -> Any:
    client = None if order.queue is None else clients.for_this_loop(order.queue)
    blocking = None if order.queue is None else clients.blocking(order.queue)
    try:
        arguments = task.decode(order.job.payload_json, _context(order, channel, client))
        with _lent(task, client, blocking):
            return await task.function(*arguments.args, **arguments.kwargs)
    finally:
        if client is not None:
            await client.close()


def _context(order: ChildOrder, channel: ChildChannel, client: Client | None) -> WorkerContext:
    return WorkerContext(
        job=order.job,
        worker_id=order.worker_id,
        client=client,
        lease=order.lease,
        report=lambda fraction, message: channel.send_note(ChildProgress(fraction, message)),
    )


def _lent(task: Task[..., Any], client: Client | None, blocking: SyncClient | None) -> AbstractContextManager[None]:
    """Let the task add jobs to the queue that its own job is from, even if its application is not known here."""
    if blocking is None or not isinstance(task.adder, SharedClients):
        return nullcontext()
    return lent_by_worker(task.adder, client, blocking)


def _resumed(traceparent: str | None) -> AbstractContextManager[object]:
    """Make the block a part of the attempt's span, if the worker has one."""
    tracing = None if traceparent is None else load_tracing()
    return nullcontext() if tracing is None or traceparent is None else tracing.resume(traceparent)


def _success(order: ChildOrder, value: Any) -> ChildResult:
    try:
        return ChildSuccess.of(value)
    except Exception as error:  # noqa: BLE001 - classes may do anything while they are written as JSON
        return ChildFailure.saying(
            f"{order} returned a value that cannot leave its process: {error}. Return what JSON can hold, or nothing."
        )


def _after_error(task: Task[..., Any], order: ChildOrder, error: BaseException) -> ChildResult:
    """Return what the task decided by raising. The retry policy is asked here, where the exception is."""
    error.__traceback__ = _from_users_frame(error.__traceback__)
    decided = decided_by(error, task, order.job.attempts)
    if decided is not None:
        return ChildDecision.of(decided)
    return ChildFailure.of(error, delay=retry_seconds(task, order.job.attempts, error))


def _after_batch(task: Task[..., Any], order: ChildOrder, result: Any) -> ChildResult:
    ending = batch_ending(task, order.job.attempts, order.job.payload_json, result, 0.0)
    return ChildDecision.of(ending) if isinstance(ending, Failed) else ChildSuccess.of(None)


def _from_users_frame(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without our frames that lead to the task."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        inner = inner.tb_next
    return trace if inner is None else inner


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # none, closed, or its reader is gone
            stream.flush()


def _show_crashes() -> None:
    with suppress(AttributeError, OSError, RuntimeError, ValueError):  # no stderr to write to
        faulthandler.enable()
