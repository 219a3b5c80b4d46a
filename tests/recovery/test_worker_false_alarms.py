"""A live worker that is busy or cut off is never declared dead."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.beats import over_tcp
from tests.support.network import Fate, Proxy
from tests.support.rhythms import CROWD, PATIENT, QUICK, in_a_crowd

if TYPE_CHECKING:
    from ferryman.embedded import EmbeddedPostgres
    from tests.support.fleet import Fleet

pytestmark = [pytest.mark.program, pytest.mark.slow]

MINUTE = 1.4 * CROWD
"""Seconds, at this pace."""
FIVE_MINUTES = {**QUICK, "sweep_threshold": 5 * MINUTE, "claimed_threshold": 5 * MINUTE}
FOUR_MINUTES = 4 * MINUTE
STEADY = {
    **QUICK,
    **in_a_crowd(
        {"heartbeat_interval": 0.4, "sweep_threshold": 2.4, "claimed_threshold": 2.4, "lost_session_grace": 1.6}
    ),
}
"""Time enough to connect again, even if the machine is slow."""
BEATS = 6
"""They take longer than the threshold: a worker that would be swept was swept by then."""


async def test_a_handler_that_holds_the_interpreter_for_four_of_five_minutes_does_not_get_its_worker_swept(
    fleet: Fleet,
) -> None:
    """Its thread cannot send heartbeats. The server keeps its session lock, and the threshold is longer."""
    busy, other = await fleet.started(FIVE_MINUTES, FIVE_MINUTES, concurrency=1)
    [job] = await fleet.add("hold_the_interpreter", seconds=FOUR_MINUTES)
    await fleet.until_gone(job)
    for worker in (busy, other):
        await fleet.until_beaten(worker.first_id, 2)
    assert fleet.lost() == []
    assert fleet.history.jobs("refused") == []
    assert {busy.first_id, other.first_id} == {*fleet.workers()}


async def test_a_handler_that_computes_for_twice_the_threshold_does_not_get_its_worker_swept(fleet: Fleet) -> None:
    """It blocks the event loop with Python code. Beats come from a thread of their own."""
    workers = await fleet.started(QUICK, QUICK, concurrency=1)
    [job] = await fleet.add("compute", seconds=2 * QUICK["sweep_threshold"])
    await fleet.until_settled(job)
    for worker in workers:
        await fleet.until_beaten(worker.first_id, 2)
    assert fleet.lost() == []
    assert fleet.history.jobs("started") == [job]


async def test_after_an_outage_of_any_length_everybody_goes_on_and_nobody_is_swept(
    fleet: Fleet, server: EmbeddedPostgres
) -> None:
    """From a blink to twice the threshold, which is ten minutes at this pace. Jobs run through it and are settled."""
    async with Proxy(over_tcp(server, fleet.dsn)) as network:
        workers = await fleet.started(STEADY, STEADY, dsn=network.dsn, concurrency=1)
        for number, seconds in enumerate((0.1, STEADY["lost_session_grace"], 2 * STEADY["sweep_threshold"])):
            gate = fleet.gate(f"gate {number}")
            [job] = await fleet.add(queue="a", gate=str(gate))
            owner = await fleet.until_started(job)

            network.new_connections = Fate.REFUSED
            network.reset()
            await asyncio.sleep(seconds)
            network.new_connections = Fate.WORK

            gate.touch()
            assert await fleet.until_settled(job) == owner
            for worker in workers:
                await fleet.until_beaten(worker.first_id, 2)
        assert fleet.lost() == []
        assert fleet.history.jobs("refused") == []


async def test_a_sweeper_that_was_stopped_takes_nobody_for_dead_when_it_goes_on(fleet: Fleet) -> None:
    """It saw no heartbeats because it did not look."""
    sweeper, other = await fleet.started(QUICK, PATIENT)
    await fleet.until_beaten(sweeper.first_id, 2)

    sweeper.freeze()
    stopped_at = time.monotonic()
    while time.monotonic() < stopped_at + 2 * QUICK["sweep_threshold"]:
        await fleet.until_beaten(other.first_id, 1)
    sweeper.thaw()

    await fleet.until_beaten(sweeper.first_id, BEATS)
    assert fleet.lost() == []
    assert {sweeper.first_id, other.first_id} == {*fleet.workers()}


async def test_a_clock_of_the_database_that_jumps_back_and_ahead_gets_nobody_swept(fleet: Fleet) -> None:
    """Heartbeats change, even if the time in them is wrong."""
    first, second = await fleet.started(QUICK, QUICK)
    for jump in ("-1 day", "1 day"):
        fleet.rows(
            "create or replace function jump() returns trigger language plpgsql as "
            f"$$ begin new.last_heartbeat_at := new.last_heartbeat_at + interval '{jump}'; return new; end $$"
        )
        fleet.rows(
            "create or replace trigger jump before update on graphile_worker._private_workers "
            "for each row execute function jump()"
        )
        await fleet.until_beaten(first.first_id, BEATS)
        await fleet.until_beaten(second.first_id, 1)
    assert fleet.lost() == []
    assert {first.first_id, second.first_id} == {*fleet.workers()}
