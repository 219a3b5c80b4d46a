"""A module whose import takes longer than its task may run."""

from __future__ import annotations

import sys
import time

from ferryman import App

app = App()

if "pytest" not in sys.modules:
    time.sleep(2.5)


@app.task
def hurry() -> str:
    return "in time"
