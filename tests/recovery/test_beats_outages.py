"""The database or the network goes away under workers: they come back, and take nobody for dead."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from ferryman.recovery import session
from tests.support import own_servers
from tests.support.beats import QUICK, Life, beat_of, holder_of, key_of, over_tcp
from tests.support.embedded_processes import watchdogs
from tests.support.network import Proxy
from tests.support.own_servers import postmaster
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from ferryman.embedded import EmbeddedPostgres


@pytest.fixture
def own_server(server_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server that the test may kill. It is started again by itself."""
    with own_servers.own_server(server_folder / "postgres", tmp_path_factory) as started:
        yield started


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
    rhythm = replace(QUICK, grace=3.0)
    lives = [Life(own_server.dsn, rhythm=rhythm) for _ in range(3)]
    with ExitStack() as stack:
        for life in lives:
            stack.enter_context(closing(life.beats))
            life.beats.start()
            assert life.is_registered.wait(20)
        killed = postmaster(own_server)
        assert killed is not None

        with frozen(*watchdogs(own_server.folder)):  # nobody starts it again
            os.kill(killed, how)
            await asyncio.sleep(rhythm.grace + 1.0)
        await until(lambda: postmaster(own_server) not in {None, killed}, "the server is back")

        with psycopg.connect(own_server.dsn, autocommit=True) as connection:
            for life in lives:
                beat = beat_of(connection, life.worker_id)
                await until(
                    lambda life=life, beat=beat: beat_of(connection, life.worker_id) > beat, "a worker beats again"
                )
                key = key_of(connection, life.worker_id)
                assert holder_of(connection, key) is not None
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
    """A worker beyond a network that may be bad."""
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.5)
    life = Life(proxy.dsn)
    life.beats.start()
    await until(life.is_registered.is_set, "it is registered")
    yield life
    proxy.passes_replies = True
    life.beats._stop.set()
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


async def test_closing_is_bounded_although_nothing_comes_back(far: Life, proxy: Proxy) -> None:
    proxy.passes_replies = False
    begun = time.monotonic()

    await asyncio.to_thread(far.beats.close, seconds=0.2)

    assert time.monotonic() - begun < session.CONNECT_SECONDS
