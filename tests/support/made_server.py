"""A server's folder that was made once in this run, to be copied: far quicker than running initdb for each test."""

from __future__ import annotations

import json
import random
import secrets
import socket
import subprocess
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from ferryman.embedded import EmbeddedPostgres
from ferryman.embedded.layout import Layout
from ferryman.embedded.place import Place
from tests.support import once
from tests.support.embedded_processes import is_quiet
from tests.support.waiting import until_blocking

HANDED_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST, USUAL_LOWEST_HANDED_OUT = 10_000, 32_768


def copy_made_server(to: Path) -> Path:
    """Make the folder of a server that has been started before, and stopped; PostgreSQL's account must reach it."""
    subprocess.run(["cp", "--archive", once.once("made server", _make), to], check=True)
    place = Place(quiet_port(), f"/tmp/ferryman-{secrets.token_hex(4)}")
    Layout(to).place.write_text(json.dumps(asdict(place)))
    return to


def _make() -> str:
    layout = Layout(once.folder / "made")
    with EmbeddedPostgres(layout.folder, linger=timedelta(0), settings={"fsync": "off"}):
        pass
    until_blocking(lambda: is_quiet(layout.folder), "the made server has stopped")
    layout.log.unlink()
    return str(layout.folder)


def quiet_port() -> int:
    """A free port that nobody is given who asks for any, so that a server finds it free again after a restart."""
    handed_out = int(HANDED_OUT.read_text().split()[0]) if HANDED_OUT.exists() else USUAL_LOWEST_HANDED_OUT
    while True:
        port = random.randrange(LOWEST, max(handed_out, LOWEST + 1))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
