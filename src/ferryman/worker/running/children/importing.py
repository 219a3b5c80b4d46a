"""Imports the modules of tasks in a child."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ferryman.script_guard import importing_for_a_task

_MAIN_KEYS = ("init_main_from_name", "init_main_from_path")


class Modules:
    """The modules of tasks, as the worker that started this child would import them."""

    def __init__(self, preparation: dict[str, Any]) -> None:
        from multiprocessing import spawn  # noqa: PLC0415 - only in a child; a worker asks this module something else

        self._prepare = spawn.prepare
        self._main = {key: preparation[key] for key in _MAIN_KEYS if key in preparation}
        self._prepare({key: value for key, value in preparation.items() if key not in _MAIN_KEYS})

    def load(self, name: str) -> object:
        """Import a module, or give back the one that was imported before."""
        with importing_for_a_task(name):
            if name == "__main__":
                self._prepare_main()
                return sys.modules["__main__"]
            return importlib.import_module(name)

    def _prepare_main(self) -> None:
        # Only when a task lives there: most scripts import far more than their tasks need.
        if self._main:
            self._prepare(self._main)
            self._main = {}
