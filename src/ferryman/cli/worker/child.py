"""A worker process under a supervisor: it gets its plan over a channel, and sends its vitals back."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import NoReturn

import msgspec

from ferryman.cli.guard import guarded
from ferryman.cli.worker.logs import set_up_logs
from ferryman.cli.worker.plan import Plan
from ferryman.cli.worker.status_line import make_room
from ferryman.cli.worker.turns import Turns
from ferryman.cli.worker.vitals import Vitals
from ferryman.cli.worker.working import WorkerProcess
from ferryman.lifeline import die_with_parent


def main(descriptor: int, parent_pid: int) -> NoReturn:
    """Serve the supervisor at the other end of the channel, and exit."""
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    die_with_parent(channel, parent_pid)
    plan = msgspec.json.decode(_line(channel), type=Plan)
    sys.argv = ["ferryman", "worker", plan.target]
    if plan.counts:
        make_room()
    turns = None if plan.log_turns is None else Turns.inherited(plan.log_turns)
    set_up_logs(plan.log_format, plan.log_level, verbose=plan.verbose, turns=turns)
    vitals = Vitals()
    channel.setblocking(False)

    def pulse() -> None:
        with suppress(OSError):  # a supervisor that is slow to read gets the next one
            channel.send(msgspec.json.encode(vitals) + b"\n")

    sys.exit(guarded(WorkerProcess(plan, vitals, pulse).run, plan.manner))


def _line(channel: socket.socket) -> bytes:
    with channel.makefile("rb") as lines:
        return lines.readline()
