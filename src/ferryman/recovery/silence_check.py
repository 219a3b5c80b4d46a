"""Watches silent workers before a sweep by hand, because its program has observed no heartbeats yet.

The age of a heartbeat does not tell a dead worker from one that could not reach the database: right after a failover or
an outage, all heartbeats are old. So each suspect is watched until two of its own heartbeats should have come. The
database answers all that time, and a live worker reconnects and sends a heartbeat.

The observed silence is noted in the worker's row, so that the next sweep need not watch as long: a dead worker whose
jobs a hook skips stays registered, and `--once` from cron would wait for it each time. The next sweep still watches for
some seconds: the note may be from before an outage, after which the worker has not reconnected yet.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ferryman.database.steps import Wait
from ferryman.queries.beat import note_silence
from ferryman.queries.sweep import read_beats
from ferryman.recovery.observer import Sign, SilenceObserver
from ferryman.recovery.rhythm import LONGEST_RECONNECT_SECONDS, LOOK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferryman.database.steps import Steps

logger = logging.getLogger("ferryman.recovery")

ROUNDING_SECONDS = 0.001


def still_silent(suspects: Mapping[str, int], clock: Callable[[], float], *, notes: bool) -> Steps[set[str]]:
    """Return the suspects that stay silent for two of their own heartbeats. Runs outside any transaction.

    suspects: the newest heartbeat of each, in microseconds
    notes: whether to store what was observed
    """
    observer = SilenceObserver(grace=0.0, silences=[0.0], reconnect_time=0.0, longest_gap=2 * LOOK_SECONDS)
    has_logged = False
    while True:
        sent = clock()
        rows = yield read_beats([*suspects])
        noted = {row[0]: row[4] for row in rows}
        signs = [
            Sign(
                worker_id,
                last_heartbeat_at,
                is_old=True,
                beat_interval=beat_interval,
                is_late=True,
                noted_silence=min(noted[worker_id], max(0.0, 2 * beat_interval - LONGEST_RECONNECT_SECONDS)),
            )
            for worker_id, beat, last_heartbeat_at, beat_interval, _ in rows
            if suspects[worker_id] == beat
        ]
        silent = {dead.worker_id for dead in observer.looked(signs, is_full=True, sent=sent, received=clock())}
        seconds = observer.next_silent_in
        if seconds is None:
            longer = [each for each in observer.silences_to_note if each[2] > noted[each[0]]]
            if notes and longer:
                yield note_silence(longer)
            return silent
        if not has_logged:
            has_logged = True
            longest = max(2 * sign.beat_interval - sign.noted_silence for sign in signs)
            logger.info(
                "watching %d silent workers for up to %.0f s: one that is alive sends a heartbeat in that time, and "
                "the others are declared dead. To recover the jobs of a worker at once, name the worker",
                len(signs),
                longest,
                extra={"event": "sweep_watches", "count": len(signs), "seconds": longest},
            )
        yield Wait(min(LOOK_SECONDS, seconds + ROUNDING_SECONDS))
