"""Every way in which a command can end, as a message and an exit code.

0  done
1  not done, or nothing was there to do it to; the reader of our output left
2  the command line was not understood
130  interrupted by Ctrl-C
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from ferryman.cli.beginning import INTERRUPTED
from ferryman.cli.complaints import Complaint, complain

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.cli.manner import Manner

NOT_DONE = 1


def guarded(run: Callable[[], Any], manner: Manner) -> int:
    """Run, tell what went wrong, and return the exit code."""
    _prepare_streams()
    if not manner.debug:
        _silence_logs()
    try:
        code = run()
        if sys.stdout is not None:  # it is None when the process was started with it closed
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return NOT_DONE
    except click.Abort:
        complain(Complaint("Interrupted", "interrupted."), manner)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a user gets a sentence, not a traceback
        complain(Complaint.of(error), manner)
        return error.exit_code if isinstance(error, click.ClickException) else NOT_DONE
    return code if isinstance(code, int) else 0


def _prepare_streams() -> None:
    # A character that the terminal cannot show must not end the command.
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _silence_logs() -> None:
    # What they log is raised or reported as well, and would be told twice.
    for name in ("psycopg", "ferryman"):
        logging.getLogger(name).addHandler(logging.NullHandler())


def _forget_output() -> None:
    # Python flushes once more at exit, and would complain then.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
