"""Several workers schedule the same crontabs, with wrong clocks, and die now and then.

They do for three thousand minutes, and for ten thousand with FERRYMAN_PROOF=1.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from ferryman import Client
from ferryman.cron.crontab import Crontab
from ferryman.cron.fill import CrontabFill
from ferryman.cron.pattern import parse_timer
from tests.support.schedulers import HOUR, MINUTE, NOON, fired, known, scheduler_at

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

SCHEDULERS = 5
MINUTES = 10_000 if "FERRYMAN_PROOF" in os.environ else 3_000  # read before fixtures hide it
LONGEST_STEP = 30
FILL = CrontabFill.hours(6)
"""Longer than the clocks are apart, and than any scheduler is away."""
CRONTABS = [
    Crontab(parse_timer("* * * * *"), "tick", fill=FILL),
    Crontab(parse_timer("*/7 * * * *"), "seventh", id="sevenths", fill=FILL, queue_name="seven"),
    Crontab(parse_timer("30 */2 * * *"), "odd", fill=FILL, time_zone="Asia/Kolkata"),
]


class Scheduling:
    """One of the workers: its clock is wrong by up to an hour, another hour after each restart."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self._client = client
        self._chance = chance
        self.cut_short = 0
        self.restart(NOON)

    def restart(self, now: datetime) -> None:
        self._skew = timedelta(seconds=self._chance.randint(-3600, 3600))
        self._scheduler, self._clock = scheduler_at(self._client, now + self._skew, CRONTABS)

    async def tick(self, now: datetime) -> None:
        if self._chance.random() < 0.02:
            self._skew = timedelta(seconds=self._chance.randint(-3600, 3600))
        self._clock.set(now + self._skew)
        await self._scheduler.tick()

    async def tick_and_die(self, now: datetime) -> None:
        """Be killed somewhere in the middle of a tick, and come back as another worker."""
        ticking = asyncio.ensure_future(self.tick(now))
        await asyncio.sleep(self._chance.random() * 0.006)
        self.cut_short += not ticking.done()
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking
        self.restart(now)


async def test_five_schedulers_that_die_and_have_wrong_clocks_fire_each_minute_once(
    database: str, connection: psycopg.Connection
) -> None:
    chance = random.Random(20300304)
    async with Client(database, max_connections=SCHEDULERS) as client:
        workers = [Scheduling(client, chance) for _ in range(SCHEDULERS)]
        now, end = NOON, NOON + MINUTES * MINUTE
        while now < end:
            now += timedelta(seconds=chance.randint(30, LONGEST_STEP * 60))
            awake = chance.sample(workers, chance.randint(1, SCHEDULERS))
            dying = {worker for worker in awake if chance.random() < 0.3}
            await asyncio.gather(
                *(worker.tick_and_die(now) if worker in dying else worker.tick(now) for worker in awake)
            )
        for worker in workers:
            await worker.tick(now + HOUR)

    for crontab in CRONTABS:
        minutes = fired(connection, crontab.task_identifier)
        assert [minute for minute, times in Counter(minutes).items() if times > 1] == []
        known_since, last = known(connection, crontab.identifier)
        expected, minute = [], crontab.next_after(known_since - MINUTE)
        while minute <= last:
            expected.append(minute)
            minute = crontab.next_after(minute)
        assert sorted(minutes) == [minute for minute in expected if minute >= known_since]
        assert minutes[-1] > end - 3 * HOUR
    ticks = fired(connection)
    assert len(ticks) >= MINUTES - 120
    assert {later - earlier for earlier, later in pairwise(sorted(ticks))} == {MINUTE}
    assert sum(worker.cut_short for worker in workers) >= MINUTES // 200


async def test_of_many_workers_that_come_at_the_same_instant_one_adds_the_job(
    database: str, connection: psycopg.Connection
) -> None:
    async with Client(database, max_connections=8) as client:
        first, clock = scheduler_at(client, NOON)
        await first.tick()
        pairs = [scheduler_at(client, NOON) for _ in range(8)]
        for number in range(1, 21):
            for _, clock in pairs:
                clock.set(NOON + number * MINUTE)
            await asyncio.gather(*(scheduler.tick() for scheduler, _ in pairs))
    assert fired(connection) == [NOON + number * MINUTE for number in range(21)]
