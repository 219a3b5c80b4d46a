"""What the `ferryman` command does before its imports, which take a while: it hears signals.

As process 1 of a container it also stays behind as a small init. The kernel drops signals that process 1 does not ask
for, and gives it every orphan of the container; a worker cannot tell those from children that a handler waits for.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

STOP_SIGNALS = tuple(n for n in signal.Signals if n.name in {"SIGTERM", "SIGINT", "SIGHUP", "SIGUSR2"})
"""Those of them that the system has. Not SIGPIPE: any handler that writes to a closed socket raises it."""
WORKERS = {"worker", "dev"}
"""Commands that end with exit code 0 when they are told to stop."""
INIT = 1
INTERRUPTED = 130


def begin(arguments: list[str]) -> None:
    """Return in the process that is to run the command. A stop signal ends it at once: nothing can be lost yet."""
    if os.getpid() != INIT:
        _hear_signals(arguments)
        return
    passed_on = {*STOP_SIGNALS, signal.SIGQUIT, signal.SIGUSR1}
    # Blocked, they are kept, not dropped.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed_on, signal.SIGCHLD})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command:
        _attend(command, passed_on)
    _hear_signals(arguments)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def imported() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, as usual."""
    if signal.getsignal(signal.SIGINT) is _end_interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def begin_child() -> None:
    """The same in a worker process, whose supervisor has blocked the stop signals."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end_in_order)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _hear_signals(arguments: list[str]) -> None:
    # Only where nobody has decided otherwise, as nohup does.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_interrupted)
    if WORKERS.isdisjoint(arguments[:1]):
        return
    for number in STOP_SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end_in_order)


def _end_interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)


def _end_in_order(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(0)


def _attend(command: int, passed_on: set[signal.Signals]) -> NoReturn:
    """Pass signals on to the command, reap orphans, and end as the command ends."""
    while True:
        heard = signal.sigwaitinfo({*passed_on, signal.SIGCHLD})
        is_from_a_key = heard.si_signo in {signal.SIGINT, signal.SIGQUIT} and heard.si_code > 0
        if heard.si_signo == signal.SIGCHLD:
            _reap(command)
        elif not is_from_a_key:  # those of a terminal reach the command by themselves
            os.kill(command, heard.si_signo)


def _reap(command: int) -> None:
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == 0:
            return
        if ended == command:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
