"""Starts the process of a child."""

from __future__ import annotations

import os
import subprocess
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any

from ferryman.worker.running.children.child_signals import held_back

if TYPE_CHECKING:
    import socket

# The path comes first, so that Ferryman is found wherever the worker found it.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from ferryman.worker.running.children.serving import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


def describe_this_process() -> dict[str, Any]:
    """What multiprocessing tells a spawned process about its parent: path, arguments, folder, main module."""
    preparation = spawn.get_preparation_data("ferryman-child")
    del preparation["authkey"]  # a secret, which refuses to be pickled
    return preparation


def start_process(channel: socket.socket, path: list[Any]) -> subprocess.Popen[bytes]:
    """Start an interpreter that serves the other end of `channel`. Takes a millisecond or two: it is not waited for.

    In a session of its own: Ctrl-C does not reach it, and whatever its task leaves running can be ended with it.
    """
    # Linux ends a child with the *thread* that started it, so this must run in the thread of the event loop.
    importable = (entry for entry in path if isinstance(entry, str))
    with held_back():
        return subprocess.Popen(  # noqa: S603 - this interpreter, with a program of ours
            [
                *(os.fsdecode(spawn.get_executable()), *_interpreter_flags(), "-c", _PROGRAM),
                *(str(channel.fileno()), str(os.getpid()), *importable),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=(channel.fileno(),),
            start_new_session=True,
        )


def _interpreter_flags() -> list[str]:
    # Private, but what multiprocessing itself uses; the alternative is a copy of it.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return flags
