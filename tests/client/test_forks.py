"""Clients that were opened before a fork, as by `gunicorn --preload` or multiprocessing."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Client, SyncClient

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


SECONDS_TO_HANG = 60


def _fork_below_python() -> int:
    """Fork as uWSGI does: Python hears nothing of it."""
    return int(ctypes.PyDLL(None).fork())


def _in_a_fork(act: Callable[[], Any], fork: Callable[[], int] = os.fork) -> Any:
    """What `act` returns in a process that was forked, after that has ended. One that hangs fails the test."""
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS_TO_HANG)
        told: Any = "failed"
        try:
            told = act()
        finally:
            os.write(writing, json.dumps(told).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the process hung"
    return json.loads(told)


def _sessions(client: SyncClient, turns: int) -> list[int]:
    """The sessions of so many connections, taken at the same time."""
    pool = client._own_pool()
    taken = [pool.getconn() for _ in range(turns)]
    for each in taken:
        pool.putconn(each)
    return [each.info.backend_pid for each in taken]


def test_a_blocking_client_that_was_opened_before_a_fork_has_sessions_of_its_own_in_each_process(
    database: str,
) -> None:
    with SyncClient(database, max_connections=2) as client:
        before = _sessions(client, 1)
        in_use = client._own_pool().getconn()  # its owner does not exist in the child
        before += _sessions(client, 1)

        def act() -> tuple[int, list[int]]:
            return client.add_raw_job("x").id, _sessions(client, 2)

        job_id, sessions = _in_a_fork(act)
        client._own_pool().putconn(in_use)

        assert not {*sessions} & {*before}
        assert {*_sessions(client, 2)} == {*before}, "the child has closed nothing of its parent"
        assert client.add_raw_job("x").id == job_id + 1


def test_an_async_client_that_was_opened_before_a_fork_has_sessions_of_its_own_in_each_process(database: str) -> None:
    client = Client(database, max_connections=1)

    async def act() -> tuple[int, int]:
        job = await client.add_raw_job("x")
        async with client.pool.connection() as taken:
            return job.id, taken.info.backend_pid

    async def scenario() -> None:
        async with client:
            first = await act()
            forked = _in_a_fork(lambda: asyncio.run(act()))
            assert forked[1] != first[1]
            assert await act() == (3, first[1]), "the child has closed nothing of its parent"

    asyncio.run(scenario())


def test_clients_have_sessions_of_their_own_in_a_process_that_was_forked_below_python(database: str) -> None:
    client, loop = Client(database), asyncio.new_event_loop()

    async def session() -> int:
        async with client.pool.connection() as taken:
            return taken.info.backend_pid

    with SyncClient(database, max_connections=2) as blocking:
        loop.run_until_complete(client.open())
        before = [*_sessions(blocking, 2), loop.run_until_complete(session())]

        def act() -> list[int]:
            return [*_sessions(blocking, 2), asyncio.run(session())]

        def close() -> None:
            blocking.close()
            asyncio.run(client.close())

        assert not {*_in_a_fork(act, _fork_below_python)} & {*before}
        assert _in_a_fork(close, _fork_below_python) is None
        after = [*_sessions(blocking, 2), loop.run_until_complete(session())]
        assert {*after} == {*before}, "the child has closed nothing of its parent"
        loop.run_until_complete(client.close())
    loop.close()
