"""Refuses a script that would do its work again in each child process.

A child imports the script to find its task there. This runs all statements outside of `if __name__ == "__main__":`
again: jobs would be added a second time, and so on.
"""

from __future__ import annotations

import ast
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ferryman.errors import TaskError

if TYPE_CHECKING:
    from types import FrameType


def refuse_unguarded_script() -> None:
    """Raise `TaskError` if the statement that the script is running now would also run in its children."""
    frame = _frame_of_the_script()
    if frame is None or _is_guarded(frame):
        return
    raise TaskError(
        f"line {frame.f_lineno} of {frame.f_code.co_filename} starts a worker, and tasks of this script run in child "
        f"processes. Each of them would import the script and run that statement again, so nothing was started. Put it "
        f'under `if __name__ == "__main__":`, with everything else that must happen once, such as adding jobs; or '
        f"move the tasks to a module of their own."
    )


def _frame_of_the_script() -> FrameType | None:
    """Return the script's own frame in the main thread; None if there is none."""
    script = vars(sys.modules["__main__"])
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001 - there is no other way
    while frame is not None and not (frame.f_code.co_name == "<module>" and frame.f_globals is script):
        frame = frame.f_back
    return frame


def _is_guarded(frame: FrameType) -> bool:
    """True if the frame's statement tests `__name__`, or if the script cannot be read."""
    try:
        statements = ast.parse(Path(frame.f_code.co_filename).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return True
    for statement in statements:
        if statement.lineno <= frame.f_lineno <= (statement.end_lineno or 0):
            asked = statement.test if isinstance(statement, ast.If) else statement
            return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(asked))
    return True
