"""The command `python -m benchmarks.rust_peer`; the package's docstring explains it."""

from __future__ import annotations

import argparse
import platform
import re
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import psycopg

import ferryman
from benchmarks.rust_peer import statements
from benchmarks.rust_peer.checks import CHECKS, Maker
from benchmarks.server import Server
from benchmarks.toolchains import DRIVERS, Unavailable, rust_program
from ferryman.embedded import EmbeddedPostgres

SETTINGS = {"fsync": "off", "max_connections": "200", "log_line_prefix": statements.LOG_PREFIX}
"""Workers are killed here, not servers: PostgreSQL need not survive a power cut."""


def main() -> int:
    """Run every check, or those that are named; the first that fails ends it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rust_peer")
    parser.add_argument("--only", help="one check by name, such as from_node or statements")
    parser.add_argument("--record", action="store_true", help="write down the statements that the crate sends now")
    options = parser.parse_args()
    try:
        program = rust_program("peer")
    except Unavailable as missing:
        sys.exit(f"nothing was checked: {missing}")
    with tempfile.TemporaryDirectory(prefix="ferryman-rust-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        with EmbeddedPostgres(folder / "postgres", settings=SETTINGS, linger=timedelta()) as started:
            maker = Maker(Server(started.tcp_dsn, 0).fresh_database, program, folder)
            print(_heading(started.tcp_dsn))
            for check in CHECKS:
                if options.only in {None, check.__name__}:
                    _say(check(maker))
            if options.only in {None, "statements"}:
                _say(statements.compared(maker, started.folder / "server.log", record=options.record))
    return 0


def _say(lines: object) -> None:
    assert isinstance(lines, list)
    print("\n".join(lines), flush=True)


def _heading(url: str) -> str:
    manifest = (DRIVERS / "rust" / "Cargo.toml").read_text()
    crate = re.search(r'graphile_worker = "=([^"]+)"', manifest)
    assert crate is not None
    with psycopg.connect(url) as connection:
        server = connection.info.parameter_status("server_version")
    day = time.strftime("%Y-%m-%d")
    return (
        f"The Rust crate as a live peer, {day}: ferryman {ferryman.__version__}, graphile_worker {crate[1]}, "
        f"Python {platform.python_version()}, PostgreSQL {server}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
