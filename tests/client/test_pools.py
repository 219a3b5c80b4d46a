"""What both pools promise, async and blocking: every test here runs on each of them."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ferryman.database import idle_connections, pools
from ferryman.database.addresses import parse_address
from ferryman.database.connections import OwnAsyncConnection, OwnConnection
from ferryman.database.pools import AsyncPool, SyncPool, open_async_pool, open_sync_pool
from ferryman.errors import NotConnectedError
from tests.support.beats import over_tcp
from tests.support.network import Fate, Proxy
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ferryman.embedded import EmbeddedPostgres

Connection = OwnAsyncConnection | OwnConnection


class AnyPool:
    """A pool whose methods are awaited, whichever kind it is; those of the blocking one run in a thread."""

    def __init__(self, pool: AsyncPool | SyncPool) -> None:
        self.pool = pool

    async def getconn(self) -> Connection:
        return await _done(self.pool.getconn)

    async def putconn(self, *connections: Connection) -> None:
        for each in connections:
            await _done(self.pool.putconn, each)

    async def fetch(self, connection: Connection, text: str) -> Any:
        return await _done(connection.fetch, text)

    async def close(self) -> None:
        await _done(self.pool.close)


@pytest.fixture(params=["async", "blocking"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., AnyPool]]:
    """Makes pools of one kind, which are closed at the end."""
    made = []

    def of_size(dsn: str, size: int = 3) -> AnyPool:
        kind = AsyncPool if request.param == "async" else SyncPool
        made.append(AnyPool(kind(parse_address(dsn), size=size)))
        return made[-1]

    yield of_size
    for each in made:
        await each.close()


@pytest.fixture
async def proxy(server: EmbeddedPostgres, database: str) -> AsyncIterator[Proxy]:
    async with Proxy(over_tcp(server, database)) as opened:
        yield opened


async def _done(method: Callable[..., Any], *args: Any) -> Any:
    if asyncio.iscoroutinefunction(method):
        return await method(*args)
    return await asyncio.to_thread(method, *args)


async def test_a_connection_that_was_given_back_is_lent_again_the_last_one_first(
    make: Callable[..., AnyPool], database: str
) -> None:
    pool = make(database)
    first, second = await pool.getconn(), await pool.getconn()
    await pool.putconn(first, second)
    assert await pool.getconn() is second
    assert await pool.getconn() is first
    await pool.putconn(first, second)


async def test_no_more_connections_are_open_than_allowed_and_who_waits_gets_the_next(
    make: Callable[..., AnyPool], database: str
) -> None:
    pool = make(database, size=1)
    only = await pool.getconn()
    waiting = asyncio.create_task(pool.getconn())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await pool.putconn(only)
    assert await waiting is only
    await pool.putconn(only)


async def test_whoever_waits_in_vain_for_a_connection_hears_what_to_do(
    make: Callable[..., AnyPool], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "SECONDS_FOR_A_TURN", 0.1)
    pool = make(database, size=1)
    only = await pool.getconn()
    with pytest.raises(NotConnectedError, match=r"all 1 are in use\. Nothing was sent\. Raise max_connections"):
        await pool.getconn()
    await pool.putconn(only)
    await pool.putconn(await pool.getconn())


async def test_a_login_that_fails_takes_no_turn(make: Callable[..., AnyPool], database: str) -> None:
    pool = make(make_conninfo(database, dbname="nowhere"), size=1)
    for _ in range(3):
        with pytest.raises(NotConnectedError, match='database "nowhere" does not exist'):
            await pool.getconn()


async def test_a_pool_that_cannot_reach_its_server_is_not_opened() -> None:
    nowhere = parse_address("host=127.0.0.1 port=1")
    with pytest.raises(NotConnectedError, match="could not connect"):
        await open_async_pool(nowhere, size=1)
    with pytest.raises(NotConnectedError, match="could not connect"):
        open_sync_pool(nowhere, size=1)


async def test_closing_closes_what_is_idle_at_once_and_what_is_in_use_when_it_comes_back(
    make: Callable[..., AnyPool], database: str
) -> None:
    pool = make(database)
    idle, in_use = await pool.getconn(), await pool.getconn()
    await pool.putconn(idle)
    await pool.close()
    assert idle.closed
    assert not in_use.closed
    await pool.fetch(in_use, "select 1")
    await pool.putconn(in_use)
    assert in_use.closed


async def test_a_connection_that_comes_back_inside_a_transaction_is_closed(
    make: Callable[..., AnyPool], database: str
) -> None:
    pool = make(database)
    connection = await pool.getconn()
    await pool.fetch(connection, "begin")
    await pool.putconn(connection)
    assert connection.closed
    await pool.putconn(await pool.getconn())


async def test_a_connection_that_the_server_closed_while_idle_is_not_lent_again(
    make: Callable[..., AnyPool], database: str, connection: psycopg.Connection
) -> None:
    pool = make(database)
    cut = await pool.getconn()
    await pool.putconn(cut)
    connection.execute("select pg_terminate_backend(%s, 5000)", [cut.info.backend_pid])
    given = await pool.getconn()
    assert given is not cut
    assert await pool.fetch(given, "select 1") == [(1,)]
    await pool.putconn(given)


async def test_a_connection_that_nobody_used_for_a_while_is_closed_unless_it_is_the_last(
    make: Callable[..., AnyPool], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make(database)
    first, second = await pool.getconn(), await pool.getconn()
    await pool.putconn(first, second)
    monkeypatch.setattr(idle_connections, "SECONDS_IDLE", 0.0)
    await pool.putconn(await pool.getconn())
    assert first.closed
    await pool.putconn(await pool.getconn())
    assert not second.closed


async def test_a_connection_is_closed_when_it_is_old(
    make: Callable[..., AnyPool], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make(database)
    old = await pool.getconn()
    await pool.putconn(old)
    assert await pool.getconn() is old
    monkeypatch.setattr(idle_connections, "SECONDS_OF_LIFE", 0.0)
    await pool.putconn(old)
    assert old.closed


async def test_connections_from_a_time_when_the_server_was_read_only_are_let_go_with_the_first_that_may_write(
    make: Callable[..., AnyPool], database: str, connection: psycopg.Connection
) -> None:
    """Else each of them would fail one more statement, long after others have succeeded."""
    read_only = f"alter database {connection.info.dbname} set default_transaction_read_only"
    connection.execute(f"{read_only} = on")
    pool = make(database)
    before, in_use = await pool.getconn(), await pool.getconn()
    await pool.putconn(before)
    connection.execute(f"{read_only} = off")
    assert await pool.getconn() is before, "nobody knows yet"

    new = await pool.getconn()
    await pool.putconn(before, in_use, new)

    assert before.closed
    assert in_use.closed
    assert await pool.getconn() is new
    await pool.putconn(new)


async def test_a_connection_that_has_idled_for_long_and_answers_is_used_again(
    make: Callable[..., AnyPool], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_connections, "SECONDS_UNASKED", 0.0)
    pool = make(database)
    first = await pool.getconn()
    await pool.putconn(first)
    assert await pool.getconn() is first
    await pool.putconn(first)


async def test_a_connection_that_has_idled_for_long_is_not_used_before_it_has_answered(
    make: Callable[..., AnyPool], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies between forgets a connection that is silent for minutes, and tells neither side."""
    monkeypatch.setattr(pools, "SECONDS_FOR_PROOF", 1.0)
    pool = make(proxy.dsn)
    silent = await pool.getconn()
    await pool.putconn(silent)
    monkeypatch.setattr(idle_connections, "SECONDS_UNASKED", 0.0)
    proxy.swallow()
    async with asyncio.timeout(60):
        given = await pool.getconn()
    assert given is not silent
    assert await pool.fetch(given, "select 1") == [(1,)]
    await pool.putconn(given)


async def test_a_connection_whose_proof_is_interrupted_is_closed_and_its_turn_is_free(
    make: Callable[..., AnyPool], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl+C. Nobody else knows of the connection: it would stay open until it is collected."""
    pool = make(database, size=1)
    connection = await pool.getconn()
    await pool.putconn(connection)
    monkeypatch.setattr(idle_connections, "SECONDS_UNASKED", 0.0)

    class Interrupt(BaseException):
        pass

    def interrupt(*_: object, **__: object) -> Any:
        raise Interrupt

    monkeypatch.setattr(type(connection), "fetch", interrupt)
    with pytest.raises(Interrupt):
        await pool.getconn()
    monkeypatch.undo()
    assert connection.closed
    await pool.putconn(await pool.getconn())


async def test_a_login_for_which_the_time_was_too_short_gets_more_the_next_time(
    make: Callable[..., AnyPool], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a slow network, four round trips may take longer than the usual limit. No try would ever succeed."""
    given = []

    def take_too_long(_: str, **options: Any) -> None:
        given.append(options["connect_timeout"])
        raise psycopg.errors.ConnectionTimeout

    monkeypatch.setattr(pools.OwnAsyncConnection, "connect", take_too_long)
    monkeypatch.setattr(pools.OwnConnection, "connect", take_too_long)
    pool = make(database, size=1)
    for _ in range(4):
        with pytest.raises(NotConnectedError):
            await pool.getconn()

    assert given == [10, 20, 30, 10], "whoever tries just before the server is back need not wait for long"
    monkeypatch.undo()
    await pool.putconn(await pool.getconn())
    assert pool.pool._patience.seconds == 10


async def test_a_server_that_is_silent_after_the_login_is_given_up_and_its_connection_closed(
    make: Callable[..., AnyPool], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pools._OPTIONS, "connect_timeout", 2)
    proxy.new_connections = Fate.SWALLOWED_AFTER_LOGIN
    pool = make(proxy.dsn, size=1)
    with pytest.raises(NotConnectedError, match="could not connect to"):
        await pool.getconn()
    gc.collect()
    await until(lambda: proxy.count == 0, "the connection is closed")
    proxy.new_connections = Fate.WORK
    await pool.putconn(await pool.getconn())


async def test_a_pool_that_starts_anew_cuts_its_connections_and_has_every_turn(
    make: Callable[..., AnyPool], database: str
) -> None:
    """As in a forked process: the parent still talks over the same socket."""
    pool = make(database, size=2)
    idle, in_use = await pool.getconn(), await pool.getconn()
    await pool.putconn(idle)
    pool.pool.start_anew()
    assert idle.closed
    assert not in_use.closed
    given = [await pool.getconn() for _ in range(2)]
    await pool.putconn(*given)
    in_use.pgconn.finish()


def test_any_number_of_threads_share_a_blocking_pool(database: str) -> None:
    pool = SyncPool(parse_address(database), size=2)
    rows: list[Any] = []

    def use() -> None:
        for _ in range(10):
            connection = pool.getconn()
            rows.extend(connection.fetch("select 1"))
            pool.putconn(connection)

    threads = [threading.Thread(target=use) for _ in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    pool.close()
    assert rows == [(1,)] * 50
