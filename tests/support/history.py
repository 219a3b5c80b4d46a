"""What happened, told by every process in one file of JSON lines: it survives PostgreSQL and all who write it."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Line = dict[str, Any]
BEGINNING = b'{"event": "'


class History:
    """A file that any number of processes append to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def close(self) -> None:
        os.close(self._descriptor)

    def note(self, event: str, **facts: Any) -> None:
        """Append a line; one write, so that lines of several processes do not mix."""
        line = {"event": event, "at": time.monotonic_ns(), "pid": os.getpid(), **facts}
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def lines(self, event: str | None = None, **facts: Any) -> list[Line]:
        """What was noted so far, in order of time; only lines of this event and with these facts, if given."""
        wanted = facts if event is None else {"event": event, **facts}
        *whole, _ = self.path.read_bytes().split(b"\n")  # the last one may be half written
        told = map(_told, whole)
        matching = [line for line in told if wanted.items() <= line.items()]
        return sorted(matching, key=lambda line: line["at"])

    def jobs(self, event: str, **facts: Any) -> list[int]:
        """The jobs of these lines."""
        return [line["job"] for line in self.lines(event, **facts)]


def _told(line: bytes) -> Line:
    """A process that is killed in the middle of a write leaves half a line, to which the next is glued."""
    whole: Line = json.loads(line[line.rindex(BEGINNING) :])
    return whole
