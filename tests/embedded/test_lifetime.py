"""From the first user to the last."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from ferryman import Client
from ferryman.embedded import EmbeddedPostgres
from ferryman.embedded.locks import is_locked
from ferryman.embedded.paths import ServerFiles
from ferryman.errors import EmbeddedServerError
from tests.support.embedded_processes import (
    is_quiet,
    postmaster,
    running_postmaster,
    stopped_cleanly,
    until_quiet,
    waiting_programs,
    watchdogs,
)
from tests.support.own_servers import copy_made_server
from tests.support.waiting import until


def ask(dsn: str, question: str) -> object:
    with psycopg.connect(dsn, connect_timeout=60) as connection:
        return connection.execute(question).fetchone()[0]


def test_the_server_answers_on_socket_and_tcp(server):
    assert ask(server.dsn, "select 1") == 1
    assert ask(server.tcp_dsn, "select host(inet_server_addr())") == "127.0.0.1"


def test_it_speaks_utf8_lives_in_utc_and_syncs_to_disk(folder):
    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        settings = ("server_encoding", "timezone", "fsync")
        assert [ask(server.dsn, f"show {name}") for name in settings] == ["UTF8", "UTC", "on"]
        assert int(ask(server.dsn, "show max_connections")) >= 100


def test_a_second_process_joins_the_same_server(server, join):
    started_at = "select pg_postmaster_start_time()"
    other = join()

    assert ask(other.joined(), started_at) == ask(server.dsn, started_at)


async def test_a_client_that_is_cancelled_while_the_server_starts_leaves_it(spare_folder, open_folder, monkeypatch):
    gate, leases = open_folder / "gate", ServerFiles(spare_folder).leases
    monkeypatch.setenv("FERRYMAN_POSTGRES_BIN", str(waiting_programs(open_folder, "postgres", gate)))
    opening = asyncio.create_task(Client(f"embedded:{spare_folder}").open())
    await until(lambda: watchdogs(spare_folder), "the server is being started")
    assert is_locked(leases)

    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    gate.touch()

    await until(lambda: not is_locked(leases), "nobody uses the server")


def test_two_objects_in_one_process_share_the_server(server, folder):
    with EmbeddedPostgres(folder) as again:
        assert again.dsn == server.dsn
    assert ask(server.dsn, "select 1") == 1


def test_the_server_stays_while_one_user_is_left_and_stops_after_the_last(join, folder):
    first, second = join(), join()
    dsn = first.joined()
    second.joined()

    first.leave()
    assert ask(dsn, "select 1") == 1

    second.leave()
    until_quiet(folder)


def test_nothing_is_left_in_the_socket_folder_after_the_last_user(folder):
    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        sockets = server._address.socket_folder
        assert sockets.exists()
    until_quiet(folder)
    assert not sockets.exists()


def test_with_no_linger_the_last_user_waits_for_the_end_and_may_remove_the_folder():
    with TemporaryDirectory() as parent:
        Path(parent).chmod(0o711)
        folder = copy_made_server(Path(parent) / "server")
        with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
            assert ask(server.dsn, "select 1") == 1
        assert is_quiet(folder)


def test_with_no_linger_a_user_that_is_not_the_last_just_leaves(server, folder):
    running = running_postmaster(folder)
    EmbeddedPostgres(folder, linger=timedelta(0)).start().close()
    assert postmaster(folder) == running


def test_it_lingers_so_that_the_next_user_finds_it_running(folder):
    with EmbeddedPostgres(folder, linger=timedelta(minutes=10)):
        running = running_postmaster(folder)
    with EmbeddedPostgres(folder):
        assert postmaster(folder) == running


def test_the_next_run_has_the_same_rows_and_the_same_address(folder):
    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("drop table if exists kept")
            connection.execute("create table kept as select 42 as answer")
        addresses = server.dsn, server.tcp_dsn
    until_quiet(folder)

    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        assert ask(server.dsn, "select answer from kept") == 42
        assert (server.dsn, server.tcp_dsn) == addresses


def test_a_user_that_comes_while_the_server_stops_gets_a_new_one(folder):
    for _ in range(5):
        with EmbeddedPostgres(folder, linger=timedelta(0), settings={"fsync": "off"}) as server:
            assert ask(server.dsn, "select 1") == 1


def test_a_forked_child_keeps_its_parents_server(join, folder):
    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        dsn = server.dsn
    os.close(reading)

    assert ask(dsn, "select 1") == 1
    os.close(writing)
    os.waitpid(child, 0)
    until_quiet(folder)


def test_starting_twice_and_closing_twice_are_each_once(folder):
    server = EmbeddedPostgres(folder, linger=timedelta(0))
    assert server.start() is server
    server.start()
    server.close()
    server.close()
    until_quiet(folder)


def test_a_closed_server_has_no_address(folder):
    server = EmbeddedPostgres(folder)

    with pytest.raises(EmbeddedServerError, match="not started"):
        _ = server.dsn
    with pytest.raises(EmbeddedServerError, match="not started"):
        _ = server.tcp_dsn


def test_a_terminated_watchdog_stops_the_server_first(server, folder):
    [watchdog] = watchdogs(folder)

    os.kill(watchdog, signal.SIGTERM)

    until_quiet(folder)
    assert stopped_cleanly(folder)


def test_ctrl_c_in_the_users_terminal_does_not_reach_the_server(join, folder):
    user = join(linger=600)
    user.joined()

    os.killpg(user.pid, signal.SIGINT)
    user.process.communicate()

    assert postmaster(folder)
    assert watchdogs(folder)


def test_a_server_whose_folder_is_reached_by_another_name_is_the_same(server, folder):
    other_name = folder.parent / "other"
    other_name.symlink_to(folder)

    with EmbeddedPostgres(other_name) as same:
        assert same.dsn == server.dsn


def test_a_relative_folder_is_meant_from_where_the_program_stands(monkeypatch, open_folder):
    monkeypatch.chdir(open_folder)
    assert EmbeddedPostgres("here").folder == Path(open_folder, "here").resolve()
