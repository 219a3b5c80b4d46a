"""The last user's part in stopping a server that shall not linger."""

import os
import signal
from contextlib import suppress

from ferryman.embedded.deadline import Deadline
from ferryman.embedded.layout import Layout
from ferryman.embedded.locks import RETRY_SECONDS, is_locked, try_lock, wait_for_lock


def stop_unless_used(layout: Layout, deadline: Deadline) -> None:
    """Have the server stopped, and wait until it is; do nothing if somebody still uses it."""
    for _ in deadline.ticks(RETRY_SECONDS):
        if lease := try_lock(layout.leases):
            try:
                _dismiss_watchdog(layout)
                wait_for_lock(layout.watched, deadline).close()
            finally:
                lease.close()
            return
        # A watchdog that stops the server keeps the lock until the end. One that only looks has it for a moment.
        if _is_used(layout) or not is_locked(layout.watched):
            return


def _is_used(layout: Layout) -> bool:
    # Users share their lock; a watchdog that is stopping the server does not.
    lease = try_lock(layout.leases, shared=True)
    if lease:
        lease.close()
    return lease is not None


def _dismiss_watchdog(layout: Layout) -> None:
    if not is_locked(layout.watched):
        return  # it has ended, and its id may be another's
    with suppress(ValueError, ProcessLookupError):
        os.kill(int(layout.watched.read_text()), signal.SIGTERM)
