"""The life of a child, in the child."""

from __future__ import annotations

import faulthandler
import logging
import pickle
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ferryman.lifeline import die_with_parent
from ferryman.worker.running.children.child_clients import ChildClients
from ferryman.worker.running.children.child_signals import Terminated, obey_only_the_parent
from ferryman.worker.running.children.framing import read_frame
from ferryman.worker.running.children.importing import Modules
from ferryman.worker.running.children.log_records import LogCarrier
from ferryman.worker.running.children.messages import ChildFailure, encode_result
from ferryman.worker.running.children.notes import Notes
from ferryman.worker.running.children.task_runs import find_task, run_task

if TYPE_CHECKING:
    from ferryman.worker.running.children.orders import ChildOrder

BEGUN = b""
"""Sent when the task was found: from now on its time counts, and a crash is its own."""


def main(descriptor: int, parent_pid: int) -> None:
    """Serve the worker at the other end of the descriptor until it closes."""
    with socket.socket(fileno=descriptor) as channel:
        channel.set_inheritable(False)  # programs that a task starts have no business here
        with suppress(EOFError, ConnectionError, Terminated):  # the worker is done with this child, or gone
            obey_only_the_parent(channel)
            die_with_parent(channel, parent_pid)
            _show_crashes()
            _serve(channel)


def _serve(channel: socket.socket) -> None:
    logs = LogCarrier()
    logging.getLogger().addHandler(logs)
    clients = ChildClients()
    modules = Modules(pickle.loads(read_frame(channel)))  # noqa: S301 - from the worker
    while True:
        order: ChildOrder = pickle.loads(read_frame(channel))  # noqa: S301 - from the worker
        notes = Notes(channel)
        logs.begin(order.log_levels, notes.tell)
        _carry_out(order, modules, notes, clients)


def _carry_out(order: ChildOrder, modules: Modules, notes: Notes, clients: ChildClients) -> None:
    found = find_task(order, modules)
    notes.send(BEGUN)
    result = found if isinstance(found, ChildFailure) else run_task(found, order, notes, clients)
    message = encode_result(result, order, order.largest_answer)
    _flush()  # what a task printed would be lost if the child were killed while it waits
    notes.end_with(message)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # none, nobody reads it, closed
            stream.flush()


def _show_crashes() -> None:
    with suppress(AttributeError, OSError, RuntimeError, ValueError):  # no stderr to write to
        faulthandler.enable()
