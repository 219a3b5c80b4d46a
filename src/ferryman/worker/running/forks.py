"""Ends processes that a handler has forked: one that returns from the handler must not run as a second worker."""

from __future__ import annotations

import os

_generation = 0


def generation() -> int:
    """How many forks lie between this process and the first one. To ask for the process id would cost a system call."""
    return _generation


def leave_if_forked(born_in: int, error: BaseException | None) -> None:
    """End this process, unless the handler was called in it. Nothing of the worker's is touched.

    born_in: the generation of the worker
    error: how the handler ended; None when it returned
    """
    if _generation != born_in:
        os._exit(_exit_code(error))


def _exit_code(error: BaseException | None) -> int:
    """The exit code that the process would have had if it had ended by itself."""
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        return error.code or 0
    return 0 if error is None else 1


def _was_forked() -> None:
    global _generation  # noqa: PLW0603 - it is the process that has a generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_was_forked)
