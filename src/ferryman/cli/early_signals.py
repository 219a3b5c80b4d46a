"""Handles signals from the first moment of the `ferryman` command, before its imports, which take a while.

As process 1 of a container it also stays behind as a small init process. The kernel drops signals that process 1 does
not handle, and makes it the parent of every orphan in the container; a worker cannot tell orphans from children that a
handler waits for.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

STOP_SIGNALS = tuple(n for n in signal.Signals if n.name in {"SIGTERM", "SIGINT", "SIGHUP", "SIGUSR2"})
"""The stop signals that this system has. Not SIGPIPE: any handler that writes to a closed socket raises it."""
WORKER_COMMANDS = {"worker", "dev"}
"""Commands that exit with code 0 when a signal asks them to stop."""
INIT = 1
INTERRUPTED = 130


def prepare(arguments: list[str]) -> None:
    """Handle signals, and return in the process that runs the command.

    Until the imports are done a stop signal ends the process at once: nothing can be lost yet.
    """
    if os.getpid() != INIT:
        _handle_signals(arguments)
        return
    passed_on = {*STOP_SIGNALS, signal.SIGQUIT, signal.SIGUSR1}
    # Blocked signals are kept, not dropped.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed_on, signal.SIGCHLD})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command:
        _serve_as_init(command, passed_on)
    _handle_signals(arguments)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def imports_done() -> None:
    """Make Ctrl-C raise KeyboardInterrupt again, as usual."""
    if signal.getsignal(signal.SIGINT) is _exit_interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def prepare_child() -> None:
    """Handle signals in a worker process, whose supervisor has blocked the stop signals."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _exit_cleanly)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _handle_signals(arguments: list[str]) -> None:
    # Signals that are ignored already, as under nohup, stay ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit_interrupted)
    if WORKER_COMMANDS.isdisjoint(arguments[:1]):
        return
    for number in STOP_SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _exit_cleanly)


def _exit_interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)


def _exit_cleanly(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(0)


def _serve_as_init(command: int, passed_on: set[signal.Signals]) -> NoReturn:
    """Pass signals on to the command, reap orphans, and exit as the command exits."""
    while True:
        received = signal.sigwaitinfo({*passed_on, signal.SIGCHLD})
        is_from_a_key = received.si_signo in {signal.SIGINT, signal.SIGQUIT} and received.si_code > 0
        if received.si_signo == signal.SIGCHLD:
            _reap(command)
        elif not is_from_a_key:  # a terminal sends those to the command too
            os.kill(command, received.si_signo)


def _reap(command: int) -> None:
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == 0:
            return
        if ended == command:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
