"""Chooses the event loop that runs the jobs: Python's own or uvloop's."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

CHOICES = ("auto", "asyncio", "uvloop")
LAST_STANDARD_FILE = 2


def loop_factory(choice: str = "auto") -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the loop factory for `asyncio.Runner`; None means Python's own. `auto` is uvloop where it is installed."""
    is_installed = find_spec("uvloop") is not None
    if choice == "uvloop" and not is_installed:
        raise ConfigurationError(
            "uvloop is not installed, so no worker was started. Run pip install 'ferryman[uvloop]', or omit --loop."
        )
    if choice == "asyncio" or not is_installed:
        return None
    _occupy_standard_files()
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


def _occupy_standard_files() -> None:
    """Open the null device for each closed standard file: uvloop aborts when it closes a file of its own there."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= LAST_STANDARD_FILE:
        pass
    os.close(number)
