"""Tells systemd how the service is doing, if it asked."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send `READY=1` or `STOPPING=1`, as sd_notify does. A service manager that does not listen changes nothing."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        channel.send(state.encode())
