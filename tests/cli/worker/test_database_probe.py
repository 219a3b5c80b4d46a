"""The question whether the database answers, for `/readyz`."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from psycopg.conninfo import make_conninfo

from ferryman import Client
from ferryman.cli.worker import database_probe
from tests.support.beats import over_tcp
from tests.support.network import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from psycopg import Connection

    from ferryman.embedded import EmbeddedPostgres


@asynccontextmanager
async def _watched(client: Client) -> AsyncIterator[asyncio.Queue[bool]]:
    """Yield the results of the probe of this client's database."""
    told: asyncio.Queue[bool] = asyncio.Queue()
    watch = asyncio.create_task(database_probe.probe_database(client, told.put_nowait))
    try:
        yield told
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch


async def test_a_database_that_falls_silent_is_told_before_psycopg_gives_up_on_it(
    server: EmbeddedPostgres, database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database_probe, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(database_probe, "INTERVAL_SECONDS", 0.01)
    async with (
        Proxy(over_tcp(server, database)) as proxy,
        Client(proxy.dsn) as client,
        _watched(client) as told,
    ):
        await _comes(told, True)
        proxy.passes_replies = False  # like a frozen server
        await _comes(told, False)
        assert not [record for record in caplog.records if record.name.startswith("psycopg")]
        proxy.passes_replies = True
        await _comes(told, True)


async def _comes(told: asyncio.Queue[bool], wanted: bool) -> None:
    while await told.get() is not wanted:
        pass


async def test_a_login_that_takes_longer_than_an_answer_may_is_waited_for(
    server: EmbeddedPostgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_probe, "ANSWER_SECONDS", 1.0)
    async with Proxy(over_tcp(server, database)) as proxy:
        proxy.delay_seconds = 0.25  # each way, and a login goes there and back several times
        async with Client(proxy.dsn) as client, _watched(client) as told:
            assert not await told.get()
            await _comes(told, True)


async def test_a_worker_whose_connections_are_all_taken_reaches_a_database_that_answers(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_probe, "ANSWER_SECONDS", 60.0)
    async with Client(database, max_connections=1) as client, client.pool.connection(), _watched(client) as told:
        assert await told.get()


async def test_a_server_without_room_for_one_more_connection_answers_the_worker_that_has_one(
    server: EmbeddedPostgres, database: str, connection: Connection
) -> None:
    role = f"full_{os.getpid()}"
    connection.execute(f"create role {role} login password 'known' connection limit 1")
    address = make_conninfo(over_tcp(server, database), user=role, password="known")
    try:
        async with Client(address, max_connections=1) as client:
            await client.ping()
            async with _watched(client) as told:
                assert await told.get()
    finally:
        connection.execute(f"drop role {role}")
