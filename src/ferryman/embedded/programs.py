"""Runs PostgreSQL's programs, as the right account and in a bare environment."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ferryman.embedded.account import Account

# An allowlist: whatever else the caller has in its environment (keys, DATABASE_URL) is no business of a server that
# may run under another account, and PG* or LC_* would change what initdb makes.
KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "TMPDIR")


def bare_environment() -> dict[str, str]:
    """Keep what a program needs to load, and nothing that makes servers differ between machines."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def run_program(
    command: Sequence[str | Path],
    account: Account | None = None,
    *,
    timeout_seconds: float | None = None,
    inherits: tuple[int, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. `inherits` are open files, such as locks, that it keeps open while it lives."""
    return subprocess.run(  # noqa: S603 - PostgreSQL's own programs, with arguments of ours
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_seconds,
        cwd="/",
        env=bare_environment(),
        pass_fds=inherits,
        user=account.user if account else None,
        group=account.group if account else None,
        extra_groups=account.extra_groups if account else None,
    )
