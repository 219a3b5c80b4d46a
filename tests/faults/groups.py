"""Control groups whose members together may use little memory. The kernel kills who wants more."""

from __future__ import annotations

import os
from pathlib import Path

BYTES = 200_000_000
LIMITS = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes", Path("/sys/fs/cgroup"): "memory.max"}
"""Where groups are made, in the first and in the second version of the kernel's interface."""


def make_group(name: str) -> Path | None:
    """A folder to whose `cgroup.procs` processes write their id; None where no group can be made."""
    for place, limit in LIMITS.items():
        folder = place / f"ferryman-faults-{os.getpid()}-{name}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(BYTES))
        except OSError:
            folder.rmdir()
            continue
        return folder
    return None
