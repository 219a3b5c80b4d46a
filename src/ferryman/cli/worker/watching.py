"""What looks at the vitals of the workers: probes, systemd, and people at a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ferryman.cli.worker.systemd import notify
from ferryman.cli.worker.vitals import liveness, readiness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.cli.worker.status_line import StatusLine
    from ferryman.cli.worker.vitals import Vitals


class Watch:
    """Looks whenever something changed, and twice a second."""

    def __init__(self, everyone: Sequence[Vitals], status_line: StatusLine | None, *, patience: float) -> None:
        self.everyone = everyone
        self._patience = patience
        self._status_line = status_line
        self._told_ready = self._told_stopping = False

    def look(self) -> None:
        """Tell systemd what is new, and draw the status line."""
        if not self._told_ready and readiness(self.everyone, self._patience).is_good:
            self._told_ready = True
            notify("READY=1")
        if "WATCHDOG_USEC" in os.environ and liveness(self.everyone, self._patience).is_good:
            notify("WATCHDOG=1")
        if self._status_line is not None:
            self._status_line.draw(self.everyone)

    def stop(self) -> None:
        """Tell systemd that the whole service stops.

        Only the process that decides to stop knows. One worker process that stops is replaced, but systemd would kill
        the service.
        """
        if not self._told_stopping:
            self._told_stopping = True
            notify("STOPPING=1")

    def end(self) -> None:
        """Leave the terminal clean."""
        if self._status_line is not None:
            self._status_line.clear()
