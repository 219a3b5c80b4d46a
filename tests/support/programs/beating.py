"""A process that only gives signs of life: python -m tests.support.programs.beating DSN ORDERS

ORDERS is JSON: the rhythm. Each line of its output is JSON too: what happened. Lines of its input are orders:
`hold SECONDS` holds the interpreter's lock in a single call of C, `end` ends it in good order.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ferryman.recovery.rhythm import Rhythm
from tests.support.beats import Life

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferryman.recovery.observer import Dead


def main(dsn: str, orders: str) -> None:
    life = TellingLife(dsn, rhythm=Rhythm(**json.loads(orders)))
    life.beats.start()
    for line in sys.stdin:
        match line.split():
            case ["hold", seconds]:
                say("held", seconds=hold_the_lock(float(seconds)))
            case ["end"]:
                break
    life.beats.close()


def hold_the_lock(seconds: float) -> float:
    """Let no other thread run: a call by way of `PyDLL` keeps the interpreter's lock."""
    begun = time.monotonic()
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return time.monotonic() - begun


def say(event: str, **details: Any) -> None:
    os.write(1, json.dumps({"event": event, **details}).encode() + b"\n")


class TellingLife(Life):
    def _was_registered(self, worker_id: str) -> None:
        say("registered", worker=worker_id)

    def _was_swept(self, worker_id: str) -> str:
        say("swept", worker=worker_id)
        return super()._was_swept(worker_id)

    def _found_dead(self, dead: Sequence[Dead]) -> None:
        for one in dead:
            say("dead", worker=one.worker_id, reason=one.reason, silent_for=one.silent_for)


if __name__ == "__main__":
    main(*sys.argv[1:])
