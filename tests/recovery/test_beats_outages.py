"""The database or the network goes away: workers reconnect, and declare no live worker dead."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman.recovery import beat_session
from tests.support.beats import QUICK, USUAL, Life, SteppedLife, beat_of, holder_of, key_of, over_tcp
from tests.support.embedded_processes import watchdogs
from tests.support.network import Proxy
from tests.support.own_servers import postmaster
from tests.support.rhythms import CROWD
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from ferryman.embedded import EmbeddedPostgres


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "stopped"])
async def test_all_workers_come_back_after_the_server_went_away_and_nobody_is_taken_for_dead(
    own_server: EmbeddedPostgres, how: signal.Signals
) -> None:
    """Advance their clocks by more than the grace."""
    lives = [SteppedLife(own_server.dsn) for _ in range(3)]
    with ExitStack() as stack:
        for life in lives:
            stack.enter_context(closing(life.beats))
            life.step()

        async with away(own_server, how):
            await until(lambda: not any(step_all(lives, 0.1)), "all sessions are lost")
            for _ in range(20):
                assert not any(step_all(lives, USUAL.grace / 10))

        with psycopg.connect(own_server.dsn, autocommit=True) as connection:
            beats = [beat_of(connection, life.worker_id) for life in lives]
            await until(lambda: all(step_all(lives, 0.1)), "all have sessions again")
            step_all(lives, USUAL.beat)
            for _ in range(20):
                step_all(lives, USUAL.grace / 10)
            assert all(beat_of(connection, life.worker_id) > beat for life, beat in zip(lives, beats, strict=True))
            assert all(holder_of(connection, key_of(connection, life.worker_id)) for life in lives)
        assert any(life.beats.is_watching for life in lives)
        assert [life.dead for life in lives] == [[], [], []]
        assert [life.registered for life in lives] == [[life.worker_id] for life in lives]


def step_all(lives: Sequence[SteppedLife], seconds: float) -> list[bool]:
    """Let time pass for all; returns which of them reach the database then."""
    for life in lives:
        life.step(seconds)
    return [life.beats._session is not None for life in lives]


@asynccontextmanager
async def away(server: EmbeddedPostgres, how: signal.Signals) -> AsyncIterator[None]:
    """Stop the server for as long as the block lasts."""
    killed = postmaster(server)
    assert killed is not None
    with frozen(*watchdogs(server.folder)):  # nobody starts it again
        os.kill(killed, how)
        yield
    await until(lambda: postmaster(server) not in {None, killed}, "the server is back")


async def test_after_an_outage_in_real_time_all_workers_beat_again_and_nobody_is_taken_for_dead(
    own_server: EmbeddedPostgres,
) -> None:
    rhythm = replace(QUICK, grace=2 * QUICK.grace)
    lives = [Life(own_server.dsn, rhythm=rhythm) for _ in range(3)]
    with ExitStack() as stack:
        for life in lives:
            stack.enter_context(closing(life.beats))
            life.beats.start()
            await until(life.is_registered.is_set, "it is registered")

        async with away(own_server, signal.SIGKILL):
            await asyncio.sleep(1.2 * rhythm.grace)

        with psycopg.connect(own_server.dsn, autocommit=True) as connection:
            for life in lives:
                beat = beat_of(connection, life.worker_id)
                await until(
                    lambda life=life, beat=beat: beat_of(connection, life.worker_id) > beat, "a worker beats again"
                )
            await until(lambda: any(life.beats.is_watching for life in lives), "somebody watches again")
        assert [life.dead for life in lives] == [[], [], []]
        assert [life.registered for life in lives] == [[life.worker_id] for life in lives]


@pytest.fixture
async def proxy(server: EmbeddedPostgres, database: str) -> AsyncIterator[Proxy]:
    async with Proxy(over_tcp(server, database)) as opened:
        yield opened


async def beats_again(life: Life, connection: psycopg.Connection) -> None:
    key = key_of(connection, life.worker_id)
    await until(lambda: key_of(connection, life.worker_id) != key, "it has a session again")
    beat = beat_of(connection, life.worker_id)
    await until(lambda: beat_of(connection, life.worker_id) > beat, "it beats again")


@pytest.fixture
async def far(proxy: Proxy, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Life]:
    """A worker behind a network that can be bad."""
    monkeypatch.setattr(beat_session, "ANSWER_SECONDS", 0.5 * CROWD)
    life = Life(proxy.dsn)
    life.beats.start()
    await until(life.is_registered.is_set, "it is registered")
    yield life
    life.beats._stop.set()
    proxy.passes_replies = True
    proxy.reset()
    thread = life.beats._thread
    assert thread is not None
    await until(lambda: not thread.is_alive(), "the thread ends")


async def test_a_connection_that_is_reset_is_replaced(far: Life, proxy: Proxy, connection: psycopg.Connection) -> None:
    proxy.reset()

    await beats_again(far, connection)


async def test_a_connection_that_swallows_everything_is_given_up(
    far: Life, proxy: Proxy, connection: psycopg.Connection
) -> None:
    proxy.swallow()

    await beats_again(far, connection)


async def test_closing_is_bounded_although_nothing_comes_back(
    far: Life, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread still waits for an answer, which takes longer than any test."""
    monkeypatch.setattr(beat_session, "ANSWER_SECONDS", 3600.0)
    proxy.passes_replies = False
    thread = far.beats._thread
    assert thread is not None

    await asyncio.to_thread(far.beats.close, seconds=0.2)

    assert thread.is_alive()
