"""A program that tells what it finds, and ends as it is told: `python -m tests.support.programs.telling WORDS`."""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    found = {
        "name": __name__,
        "words": sys.argv[1:],
        "folder": str(Path.cwd()),
        "variable": os.environ.get("TELLING"),
        "files": sorted(int(file.name) for file in Path("/proc/self/fd").iterdir() if file.exists()),
        "threads": len([*Path("/proc/self/task").iterdir()]),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "term": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
        "int": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    }
    atexit.register(print, "at exit", flush=True)
    print(json.dumps(found), flush=True)  # noqa: T201 - the test reads it
    for line in sys.stdin:
        match line.split():
            case ["exit", code]:
                sys.exit(int(code))
            case ["raise"]:
                raise ValueError("as it was told")
            case ["die", number]:
                os.kill(os.getpid(), int(number))


if __name__ == "__main__":
    main()
