"""Whether this process imports a module only to find a task there, as child processes of a worker do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ferryman.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Iterator

importing: list[str] = []
"""The module that is being imported. One per process: an import is one, too."""


def refuse_while_importing(act: str = "starts a worker") -> None:
    """Raise `TaskError` if this is a child that imports a task's module: a script's work must not be done there again.

    A script that starts its worker, or adds jobs, without `if __name__ == "__main__":` would do so in each child.

    act: what the module does
    """
    if importing:
        raise TaskError(
            f"importing {importing[0]!r} {act}, and a child process imports it to find a task there. "
            f'Put what {act} under `if __name__ == "__main__":`.'
        )


@contextmanager
def importing_for_a_task(name: str) -> Iterator[None]:
    """Remember, for as long as the block lasts, that a module is imported because a task lives there."""
    importing.append(name)
    try:
        yield
    finally:
        importing.pop()
