"""`task.enqueue(…)`: jobs that are added through the application's own clients."""

from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ferryman import App, JobSpec
from ferryman.errors import ConfigurationError, InvalidJobError, InvalidPayloadError, NotConnectedError
from ferryman.tasks import Task
from tests.client.test_forks import _in_a_fork
from tests.support.waiting import until_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman import Client


@pytest.fixture
def app(database: str) -> Iterator[App]:
    made = App(psycopg.conninfo.make_conninfo(database, application_name="shared"))
    yield made
    made.close()


@pytest.fixture
def send(app: App) -> Task[..., Any]:
    @app.task(queue_name="mail", max_attempts=3)
    async def send(to: str, using: str = "", queue_name: str = "", self: str = "") -> None: ...

    return send


def _sessions(connection: psycopg.Connection) -> list[int]:
    """The server processes of connections that the application has open."""
    found = connection.execute(
        "select pid from pg_stat_activity where application_name = 'shared' and datname = current_database()"
    )
    return [pid for (pid,) in found]


async def test_enqueue_adds_a_job_with_the_options_of_the_task_and_of_the_call(
    app: App, send: Task[..., Any], client: Client
) -> None:
    first = await send.enqueue(to="a@b.c")
    second = await send.options(queue_name="fast", delay=timedelta(hours=1), priority=-5).enqueue("d@e.f")
    third = send.options(job_key="k").enqueue_sync(to="g@h.i")

    for job in (first, second, third):
        assert await client.get_job(job.id) == job
    assert (first.payload, first.queue_name, first.max_attempts) == ({"to": "a@b.c"}, "mail", 3)
    assert (second.queue_name, second.priority, second.max_attempts) == ("fast", -5, 3)
    assert second.run_at - second.created_at == timedelta(hours=1)
    assert third.key == "k"


async def test_parameters_of_a_task_may_be_called_like_options(send: Task[..., Any]) -> None:
    names = {"to": "x", "using": "y", "queue_name": "z", "self": "s"}

    jobs = [await send.enqueue(**names), await send.options(priority=1).enqueue(**names), send.enqueue_sync(**names)]

    assert [job.payload for job in jobs] == [names] * 3


async def test_a_call_that_the_task_could_not_run_adds_nothing(send: Task[..., Any], client: Client) -> None:
    with pytest.raises(InvalidPayloadError, match="unknown argument 'too'"):
        await send.enqueue(too="a@b.c")
    with pytest.raises(InvalidPayloadError, match="unknown argument 'too'"):
        send.enqueue_sync(too="a@b.c")
    with pytest.raises(InvalidJobError, match="either a run_at or a delay"):
        send.options(delay=timedelta(1), run_at=datetime.now(UTC))
    assert (await client.counts()).total == 0


def test_options_has_every_field_of_a_spec() -> None:
    given = set(inspect.signature(Task.options).parameters) - {"self", "notify", "using"}

    assert given == {field.name for field in fields(JobSpec)}


async def test_a_job_that_is_added_with_a_borrowed_connection_is_part_of_its_transaction(
    database: str, send: Task[..., Any], client: Client, connection: psycopg.Connection
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as mine:
        await send.options(using=mine).enqueue(to="a@b.c")
        assert (await client.counts()).total == 0
        await mine.rollback()
    with psycopg.connect(database) as blocking:
        send.options(using=blocking).enqueue_sync(to="d@e.f")

    assert (await client.counts()).total == 1
    assert _sessions(connection) == [], "the application needed no connection of its own"


def test_each_event_loop_has_a_client_of_its_own_which_ends_with_it(
    send: Task[..., Any], connection: psycopg.Connection
) -> None:
    async def act() -> tuple[list[int], int]:
        jobs = await asyncio.gather(*(send.enqueue(to=str(number)) for number in range(3)))
        return _sessions(connection), len(jobs)

    (first, added), (second, _) = asyncio.run(act()), asyncio.run(act())

    assert (added, len(first)) == (3, 3)
    assert not {*first} & {*second}
    until_blocking(lambda: _sessions(connection) == [], "the connections of both loops are closed")


def test_a_loop_that_was_closed_without_a_word_is_cleared_away_by_the_next(
    send: Task[..., Any], connection: psycopg.Connection
) -> None:
    """Neither waits for the other, and nothing is left open for the garbage collector to complain of."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(send.enqueue(to="a@b.c"))
    loop.close()
    [left] = _sessions(connection)

    asyncio.run(send.enqueue(to="d@e.f"))

    del loop
    gc.collect()
    until_blocking(lambda: left not in _sessions(connection), "the connection of the closed loop is closed")


def test_threads_share_one_client_and_threads_with_loops_have_their_own(
    app: App, send: Task[..., Any], connection: psycopg.Connection
) -> None:
    seen: list[str] = []

    def act(number: int) -> None:
        if number % 2:
            seen.append(asyncio.run(send.enqueue(to=str(number))).payload["to"])
        else:
            seen.append(send.enqueue_sync(to=str(number)).payload["to"])

    threads = [threading.Thread(target=act, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(seen) == [str(number) for number in range(8)]
    app.close()
    until_blocking(lambda: _sessions(connection) == [], "everything is closed")


async def test_closing_an_application_closes_what_it_opened_and_the_next_job_opens_it_again(
    app: App, send: Task[..., Any], connection: psycopg.Connection
) -> None:
    for _ in range(2):
        await send.enqueue(to="a@b.c")
        send.enqueue_sync(to="d@e.f")
        assert len(_sessions(connection)) == 2
        app.close()
        until_blocking(lambda: _sessions(connection) == [], "everything is closed")


def test_a_call_that_another_thread_closes_the_application_under_connects_again(
    app: App, send: Task[..., Any], connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = app.clients.blocking_client()  # as a thread has that stops here for a moment
    app.close()
    assert found.add_job(send.job(to="a@b.c")).payload == {"to": "a@b.c"}

    def open_and_stop_there() -> None:
        monkeypatch.undo()
        found.open()
        app.close()

    app.close()
    monkeypatch.setattr(found, "open", open_and_stop_there)
    assert send.enqueue_sync(to="d@e.f").payload == {"to": "d@e.f"}

    app.close()
    until_blocking(lambda: _sessions(connection) == [], "everything is closed")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_was_forked_has_connections_of_its_own_whatever_its_parent_was_doing(
    app: App, send: Task[..., Any], connection: psycopg.Connection
) -> None:
    send.enqueue_sync(to="before")
    [before] = _sessions(connection)

    def act() -> list[Any]:
        jobs = [send.enqueue_sync(to="child"), asyncio.run(send.enqueue(to="child"))]
        sessions = _sessions_of(app)
        app.close()
        return [len({job.id for job in jobs}), sessions]

    with app.clients._lock, app.clients.blocking_client()._opening:  # as other threads may hold them
        added, in_child = _in_a_fork(act)

    assert added == 2
    assert before not in in_child
    send.enqueue_sync(to="after")
    assert before in _sessions(connection), "the child has closed nothing of its parent"

    app.close()
    with app.clients.blocking_client()._opening:  # now it is not open yet
        assert _in_a_fork(act)[0] == 2


def _sessions_of(app: App) -> list[int]:
    pool = app.clients.blocking_client()._own_pool()
    taken = pool.getconn()
    pool.putconn(taken)
    return [taken.info.backend_pid]


AT_EXIT = """
import atexit, sys
from ferryman import App

app = App(sys.argv[1])
send = app.task(lambda to: None, identifier="send")
atexit.register(lambda: send.enqueue_sync(to="at exit"))
send.enqueue_sync(to="before")
"""


@pytest.mark.program
def test_a_job_can_be_added_while_the_process_ends(database: str, connection: psycopg.Connection) -> None:
    """What was registered first is called last: after the connections were closed."""
    ended = subprocess.run([sys.executable, "-c", AT_EXIT, database], capture_output=True, text=True, check=True)

    assert ended.stderr == ""
    assert connection.execute("select count(*)::int from graphile_worker._private_jobs").fetchall() == [(2,)]


async def test_a_server_that_cannot_be_reached_is_named_at_each_call(database: str) -> None:
    app = App(psycopg.conninfo.make_conninfo(database, host="127.0.0.1", port=1))
    send = app.task(lambda to: None, identifier="send")

    for _ in range(2):
        with pytest.raises(NotConnectedError, match="could not connect"):
            send.enqueue_sync(to="a@b.c")
        with pytest.raises(NotConnectedError, match="could not connect"):
            await send.enqueue(to="a@b.c")


def test_tasks_of_a_library_go_to_the_database_of_the_application_that_included_it(database: str) -> None:
    library, shop, other = App("postgresql://nowhere.invalid/"), App(database), App(database)
    send = library.task(lambda to: None, identifier="send")
    shop.include(library)
    shop.include(shop)

    assert send.enqueue_sync(to="a@b.c").id == 1

    other.include(library)
    with pytest.raises(ConfigurationError, match="2 applications include this task"):
        send.enqueue_sync(to="a@b.c")
    top = App(database)
    top.include(shop)
    top.include(other)
    assert send.enqueue_sync(to="a@b.c").id == 2
    shop.close()
    top.close()


async def test_an_application_that_nothing_refers_to_leaves_no_connection_open(
    database: str, connection: psycopg.Connection
) -> None:
    async def use_one() -> None:
        app = App(psycopg.conninfo.make_conninfo(database, application_name="shared"))
        send = app.task(lambda to: None, identifier="send")
        send.enqueue_sync(to="a@b.c")
        await send.enqueue(to="a@b.c")
        assert len(_sessions(connection)) == 2

    await use_one()
    gc.collect()

    until_blocking(lambda: _sessions(connection) == [], "the connections are closed")
