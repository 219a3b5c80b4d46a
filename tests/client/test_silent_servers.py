"""A server that falls silent keeps nobody waiting for ever: neither at the login nor on a connection that has idled."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import TYPE_CHECKING

import pytest

from ferryman import Client, SyncClient
from ferryman.database import idle_connections, pools
from ferryman.database.addresses import find_address, parse_address
from ferryman.database.connecting import ConnectPatience
from ferryman.database.pools import AsyncPool
from ferryman.recovery.beat_session import BeatSession
from ferryman.worker.background import keep_doing
from ferryman.worker.claiming.listener import Listener
from tests.support.beats import SCHEMA, over_tcp
from tests.support.network import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ferryman.embedded import EmbeddedPostgres

WATCHED = {
    socket.SO_KEEPALIVE: (socket.SOL_SOCKET, 1),
    socket.TCP_KEEPIDLE: (socket.IPPROTO_TCP, 5),
    socket.TCP_KEEPINTVL: (socket.IPPROTO_TCP, 2),
    socket.TCP_KEEPCNT: (socket.IPPROTO_TCP, 3),
    socket.TCP_USER_TIMEOUT: (socket.IPPROTO_TCP, 10_000),
}


@pytest.fixture
async def proxy(server: EmbeddedPostgres, database: str) -> AsyncIterator[Proxy]:
    async with Proxy(over_tcp(server, database)) as opened:
        yield opened


def watched(number: int) -> dict[int, int]:
    """How the system watches over a connection."""
    with socket.socket(fileno=socket.dup(number)) as copy:
        return {option: copy.getsockopt(level, option) for option, (level, _) in WATCHED.items()}


async def test_every_connection_of_ours_is_watched_by_the_system(server: EmbeddedPostgres, database: str) -> None:
    dsn, wanted = over_tcp(server, database), {option: value for option, (_, value) in WATCHED.items()}
    async with Client(dsn) as client, client.pool.connection() as one:
        assert watched(one.pgconn.socket) == wanted
    with SyncClient(dsn) as blocking:
        another = blocking._own_pool().getconn()
        assert watched(another.pgconn.socket) == wanted
        blocking._own_pool().putconn(another)
    session = BeatSession.open(parse_address(dsn), SCHEMA, "worker")
    assert watched(session._connection.pgconn.socket) == wanted
    session.close()


def test_whoever_says_how_to_watch_a_connection_is_obeyed() -> None:
    address = find_address("postgresql://host/db?keepalives_idle=60&tcp_user_timeout=0")
    assert "keepalives_idle=60" in address.conninfo
    assert "tcp_user_timeout=0" in address.conninfo
    assert "keepalives_interval=2" in address.conninfo


def test_a_login_that_took_long_is_no_reason_to_wait_longer_for_the_next() -> None:
    """The time of a login has that of all the hosts in it which were tried before, and each had the limit."""
    patience = ConnectPatience(10, 30)
    patience.took(10.2)
    assert patience.seconds == 10


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_connection_that_has_idled_for_long_is_not_used_before_it_has_answered(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What lies between forgets a connection that is silent for minutes, and tells neither side."""
    monkeypatch.setattr(pools, "SECONDS_FOR_PROOF", 1.0)
    if kind == "async":
        async with Client(proxy.dsn) as client:
            await client.add_raw_job("x")
            monkeypatch.setattr(idle_connections, "SECONDS_UNASKED", 0.0)
            proxy.swallow()
            async with asyncio.timeout(60):
                assert (await client.add_raw_job("x")).id == 2
        return
    client = SyncClient(proxy.dsn)
    await asyncio.to_thread(client.open)
    await asyncio.to_thread(client.add_raw_job, "x")
    monkeypatch.setattr(idle_connections, "SECONDS_UNASKED", 0.0)
    proxy.swallow()
    async with asyncio.timeout(60):
        assert (await asyncio.to_thread(client.add_raw_job, "x")).id == 2
    await asyncio.to_thread(client.close)


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("who", ["pool", "listener"])
async def test_a_login_that_is_given_up_is_closed_at_once(without_collector: None, who: str) -> None:
    """Until its client is gone, PostgreSQL waits for the password, and nobody can drop a database meanwhile."""
    asked, closed = asyncio.Event(), asyncio.Event()

    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            asked.set()
        closed.set()
        writer.close()

    async with await asyncio.start_server(be_silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        address = parse_address(f"postgresql://user@127.0.0.1:{port}/db?sslmode=disable&gssencmode=disable")
        listener = Listener(address, SCHEMA, is_behind_pooler=lambda: False, poll_seconds=1)
        duty = listener.run if who == "listener" else AsyncPool(address, size=1).getconn
        login = asyncio.create_task(keep_doing(duty, "log in"))
        await asked.wait()
        login.cancel()
        await asyncio.wait([login])
        async with asyncio.timeout(60):
            await closed.wait()
