"""The clock that decides how long nothing was heard."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from ferryman import clocks

SUSPENDED = 3_600.0


def test_the_clock_of_silence_counts_the_time_in_which_the_machine_was_suspended() -> None:
    """In a time namespace that was suspended for an hour, as far as its clocks can tell."""
    difference = "import time; from ferryman import clocks; print(clocks.now() - time.monotonic())"
    command = ["unshare", "--user", "--map-root-user", "--time", "--boottime", str(int(SUSPENDED)), "--fork"]
    try:
        ran = subprocess.run([*command, sys.executable, "-c", difference], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine allows no time namespaces")
    here = clocks.now() - time.monotonic()
    assert float(ran.stdout) == pytest.approx(here + SUSPENDED, abs=60)
