"""Jobs that ended because their process did."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Self

from ferryman.errors import FerrymanError

if TYPE_CHECKING:
    from ferryman.worker.children.orders import ChildOrder

_OUT_OF_MEMORY = ". That is also what the system does when memory runs out"


class WorkerCrashed(FerrymanError):  # noqa: N818 - the name that people write in retry policies
    """The process that ran a job ended before the job did.

    exit_code: as in `subprocess`: what the process gave, or minus the number of the signal that ended it
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message, exit_code)
        self.message = message
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message

    @classmethod
    def of(cls, order: ChildOrder, exit_code: int, *, has_begun: bool) -> Self:
        """Name the job, and what ended its process."""
        duty = "ran" if has_begun else "was about to run"
        return cls(f"the process that {duty} {order} {_ended(exit_code)}", exit_code)


class PoolClosedError(FerrymanError):
    """The pool was closed before the job could run, or before it finished."""


def _ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended itself with exit code {exit_code}"
    return f"was ended by {_signal_name(-exit_code)}{_OUT_OF_MEMORY if -exit_code == signal.SIGKILL else ''}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
