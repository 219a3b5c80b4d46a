"""A module that a worker can import and a child cannot."""

from __future__ import annotations

import sys

from ferryman import App

app = App()

if "pytest" not in sys.modules:
    raise RuntimeError("no licence for this process")


@app.task
def unreachable() -> None:
    pass
