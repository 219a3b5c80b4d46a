"""Starts a warm program and tells its pid: `python -m tests.support.programs.keeping`."""

from __future__ import annotations

import sys

from tests.support.processes import Program


def main() -> None:
    program = Program("tests.support.programs.telling", talks=True)
    print(program.pid, flush=True)  # noqa: T201 - the test reads it
    sys.stdin.read()


if __name__ == "__main__":
    main()
