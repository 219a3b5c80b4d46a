"""Can be imported by a worker; a child that imports it dies."""

from __future__ import annotations

import os

from ferryman import App
from ferryman.errors import TaskError
from ferryman.script_guard import refuse_while_importing

app = App()

try:
    refuse_while_importing()
except TaskError:
    os._exit(3)


@app.task(run_in="process", on_crash="fail")
def never_imported() -> None: ...
