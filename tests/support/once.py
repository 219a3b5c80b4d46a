"""Things that are made once per run, whichever pytest process asks first."""

from __future__ import annotations

import fcntl
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

NOWHERE = Path()
folder = NOWHERE
"""Where results lie; `tests/conftest.py` sets it. All pytest processes of a run share it."""


def once(name: str, make: Callable[[], T]) -> T:
    """What `make` gave to the first who asked for this name; everybody else waits for it. It must be JSON.

    When `make` fails, the next one to ask tries again. Outside of a run, as in a benchmark, nothing is kept.
    """
    if folder is NOWHERE:
        return make()
    place = folder / hashlib.sha256(name.encode()).hexdigest()[:16]
    result = place.with_suffix(".json")
    with place.with_suffix(".lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not result.exists():
            draft = place.with_suffix(".draft")
            draft.write_text(json.dumps(make()))
            draft.rename(result)
    made: T = json.loads(result.read_text())
    return made
