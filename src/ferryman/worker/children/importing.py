"""Imports the modules of tasks in a child, and keeps a worker from starting there by accident."""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ferryman.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAIN_KEYS = ("init_main_from_name", "init_main_from_path")

_importing: list[str] = []
"""The module that this process is importing because a task lives there. One per process: an import is one, too."""


def refuse_while_importing() -> None:
    """Raise `TaskError` if this is a child that imports a task's module: a worker must not start from there.

    A script that starts its worker without `if __name__ == "__main__":` would start another one in each child.
    """
    if _importing:
        raise TaskError(
            f"importing {_importing[0]!r} starts a worker, and a child process imports it to find a task there. "
            f'Put what starts the worker under `if __name__ == "__main__":`.'
        )


class Modules:
    """The modules of tasks, as the worker that started this child would import them."""

    def __init__(self, preparation: dict[str, Any]) -> None:
        from multiprocessing import spawn  # noqa: PLC0415 - only in a child; a worker asks this module something else

        self._prepare = spawn.prepare
        self._main = {key: preparation[key] for key in _MAIN_KEYS if key in preparation}
        self._prepare({key: value for key, value in preparation.items() if key not in _MAIN_KEYS})

    def load(self, name: str) -> object:
        """Import a module, or give back the one that was imported before."""
        with _marked(name):
            if name == "__main__":
                self._prepare_main()
                return sys.modules["__main__"]
            return importlib.import_module(name)

    def _prepare_main(self) -> None:
        # Only when a task lives there: most scripts import far more than their tasks need.
        if self._main:
            self._prepare(self._main)
            self._main = {}


@contextmanager
def _marked(name: str) -> Iterator[None]:
    _importing.append(name)
    try:
        yield
    finally:
        _importing.pop()
