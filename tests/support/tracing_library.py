"""OpenTelemetry, loaded for some tests alone: all others run as in a program without it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

LIBRARY = "opentelemetry.trace"
"""By this module Ferryman knows that a program uses OpenTelemetry."""
_kept: dict[str, ModuleType] = {}


@contextmanager
def loadable() -> Iterator[None]:
    """What is imported in the block is not seen after it, and is the same in the next block."""
    sys.modules.update(_kept)
    try:
        yield
    finally:
        if LIBRARY in sys.modules:
            _kept[LIBRARY] = sys.modules.pop(LIBRARY)
