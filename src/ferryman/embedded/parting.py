"""The last user's part in stopping a server that shall not linger."""

import os
import signal
from contextlib import suppress

from ferryman.embedded.deadline import Deadline
from ferryman.embedded.layout import Layout
from ferryman.embedded.locks import try_lock, wait_for_lock


def stop_unless_used(layout: Layout, deadline: Deadline) -> None:
    """Have the server stopped, and wait until it is; do nothing if somebody still uses it."""
    lease = try_lock(layout.leases)
    if lease is None and _is_used(layout):
        return
    try:
        if lease:
            _dismiss_watchdog(layout)
        wait_for_lock(layout.watched, deadline).close()
    finally:
        if lease:
            lease.close()


def _is_used(layout: Layout) -> bool:
    # Users share their lock; a watchdog that is stopping the server does not.
    lease = try_lock(layout.leases, shared=True)
    if lease:
        lease.close()
    return lease is not None


def _dismiss_watchdog(layout: Layout) -> None:
    with suppress(ValueError, ProcessLookupError):
        os.kill(int(layout.watched.read_text()), signal.SIGTERM)
