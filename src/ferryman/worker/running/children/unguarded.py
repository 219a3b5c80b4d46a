"""Finds scripts that would start again in each child process, before the first child starts.

A child imports the script to find its task there. Whatever the script does outside of `if __name__ == "__main__":` is
done again then: jobs are added a second time, and so on.
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
    """Raise `TaskError` if the script that was started is right now at a statement that children would run, too."""
    frame = _frame_of_the_script()
    if frame is None or _is_guarded(frame):
        return
    raise TaskError(
        f"line {frame.f_lineno} of {frame.f_code.co_filename} starts a worker, and tasks of this script run in child "
        f"processes. Each of them would import the script and do all of that again, so nothing was started. Put it "
        f'under `if __name__ == "__main__":`, with everything else that is to be done once, such as adding jobs; or '
        f"move the tasks to a module of their own."
    )


def _frame_of_the_script() -> FrameType | None:
    """Where the main thread stands in the script itself; None if it is not there."""
    script = vars(sys.modules["__main__"])
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001 - there is no other way
    while frame is not None and not (frame.f_code.co_name == "<module>" and frame.f_globals is script):
        frame = frame.f_back
    return frame


def _is_guarded(frame: FrameType) -> bool:
    """True if the statement asks for `__name__` first. What cannot be read is not judged."""
    try:
        statements = ast.parse(Path(frame.f_code.co_filename).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return True
    for statement in statements:
        if statement.lineno <= frame.f_lineno <= (statement.end_lineno or 0):
            asked = statement.test if isinstance(statement, ast.If) else statement
            return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(asked))
    return True
