"""Keeps a script's work from being done again in a child process, which imports the script to find a task."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ferryman.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Iterator

importing: list[str] = []
"""The modules that this process is importing to find a task there."""


def refuse_while_importing(act: str = "starts a worker") -> None:
    """Raise `TaskError` if this child process is importing the module of a task.

    A script that starts its worker, or adds jobs, without `if __name__ == "__main__":` would do so in each child.

    act: what the module does: "starts a worker"
    """
    if importing:
        raise TaskError(
            f"importing {importing[0]!r} {act}, and a child process imports it to find a task there. "
            f'This was refused. Put what {act} under `if __name__ == "__main__":`.'
        )


@contextmanager
def importing_for_a_task(name: str) -> Iterator[None]:
    """Remember, for the duration of the block, that a module is being imported to find a task."""
    importing.append(name)
    try:
        yield
    finally:
        importing.pop()
