"""A process that migrates when it is told to: says "ready", waits for a line, prints the outcome."""

from __future__ import annotations

import sys

from ferryman.schema import migrate
from tests.support.carrying import carry_out


def main(dsn: str) -> None:
    print("ready", flush=True)  # noqa: T201 - the test reads it
    sys.stdin.readline()
    print(carry_out(dsn, migrate).outcome.value, flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(sys.argv[1])
