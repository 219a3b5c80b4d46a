"""SIGKILL of everybody around a server."""

import os
import shutil
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ferryman.embedded import EmbeddedPostgres
from ferryman.embedded.account import account_for
from ferryman.embedded.postmaster import HOPELESS_STARTS
from tests.support.embedded_processes import (
    failing_programs,
    has_backends,
    kill,
    postmaster,
    running_postmaster,
    stopped_cleanly,
    until_quiet,
    watchdogs,
)
from tests.support.waiting import until_blocking

LONG = 600.0
"""Seconds that a server lingers while it must not stop by itself."""


def write_rows(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("drop table if exists kept")
        connection.execute("create table kept as select generate_series(1, 1000)")


def kept_rows(dsn: str) -> int | None:
    """The rows can be read, as soon as the server is back."""
    try:
        with psycopg.connect(dsn, connect_timeout=60) as connection:
            return connection.execute("select count(*) from kept").fetchone()[0]
    except psycopg.OperationalError:
        return None


def test_the_server_stops_after_its_only_user_was_killed(join, folder):
    user = join()
    user.joined()

    user.kill()

    until_quiet(folder)
    assert stopped_cleanly(folder)


def test_a_killed_user_does_not_take_the_server_from_the_others(server, join, folder):
    running = running_postmaster(folder)
    user = join()
    user.joined()

    user.kill()

    with psycopg.connect(server.dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert postmaster(folder) == running


def test_a_killed_server_comes_back_at_the_same_address_with_its_rows(server, folder):
    write_rows(server.dsn)

    kill(running_postmaster(folder))

    assert until_blocking(lambda: kept_rows(server.dsn), "the rows can be read") == 1000
    assert kept_rows(server.tcp_dsn) == 1000


def test_a_server_that_is_killed_again_and_again_comes_back_each_time(server, folder):
    write_rows(server.dsn)
    for _ in range(5):
        kill(running_postmaster(folder))
        assert until_blocking(lambda: kept_rows(server.dsn), "the rows can be read") == 1000


def test_a_server_in_use_is_started_again_however_often_that_fails_as_on_a_full_disk(spare_folder, open_folder):
    gate, tries = open_folder / "full", open_folder / "tries"
    tries.touch(mode=0o666)
    tries.chmod(0o666)
    programs = failing_programs(open_folder, gate, tries)
    with EmbeddedPostgres(spare_folder, binaries=programs, linger=timedelta(0)) as server:
        write_rows(server.dsn)
        gate.touch()
        kill(running_postmaster(spare_folder))
        until_blocking(lambda: len(tries.read_text().splitlines()) > HOPELESS_STARTS, "several starts have failed")
        draft = spare_folder / "place.draft"
        draft.mkdir()  # nor can the watchdog write
        gate.unlink()
        log = spare_folder / "server.log"
        until_blocking(lambda: "could not be started" in log.read_text(), "another one failed, and was told")
        draft.rmdir()

        assert until_blocking(lambda: kept_rows(server.dsn), "the rows can be read") == 1000


def test_a_server_whose_socket_was_removed_is_used_by_tcp_until_it_has_made_another_one(server, join, folder):
    write_rows(server.dsn)
    [watchdog] = watchdogs(folder)
    os.kill(watchdog, signal.SIGSTOP)
    try:
        shutil.rmtree(conninfo_to_dict(server.dsn)["host"])
        assert kept_rows(server.dsn) is None
        newcomer = join().joined()
    finally:
        os.kill(watchdog, signal.SIGCONT)

    assert conninfo_to_dict(newcomer)["host"] == "127.0.0.1"
    assert until_blocking(lambda: kept_rows(server.dsn), "the rows can be read") == 1000
    assert kept_rows(newcomer) == 1000


def test_a_server_whose_watchdog_was_killed_is_adopted_by_the_next_user(server, join, folder):
    [watchdog] = watchdogs(folder)
    running = running_postmaster(folder)
    kill(watchdog)

    join().joined()

    assert postmaster(folder) == running
    assert len(watchdogs(folder)) == 1


def test_an_adopted_server_is_restarted_and_stopped_like_any_other(server, join, folder):
    write_rows(server.dsn)
    kill(*watchdogs(folder))
    user = join(linger=0)
    user.joined()

    kill(running_postmaster(folder))
    assert until_blocking(lambda: kept_rows(server.dsn), "the rows can be read") == 1000

    user.leave()
    server.close()
    until_quiet(folder)


def test_an_adopted_server_stops_after_its_last_user(server, join, folder):
    kill(*watchdogs(folder))
    user = join(linger=0)
    user.joined()

    user.leave()
    server.close()

    until_quiet(folder)
    assert stopped_cleanly(folder)


def test_a_user_that_leaves_replaces_the_killed_watchdog_so_that_the_server_stops(server, folder):
    kill(*watchdogs(folder))

    server.close()

    until_quiet(folder)


def test_rows_survive_the_death_of_everybody(join, folder):
    user = join(linger=LONG)
    write_rows(user.joined())

    user.kill()
    kill(*watchdogs(folder), running_postmaster(folder))

    with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
        assert kept_rows(server.dsn) == 1000


def test_a_new_server_waits_for_the_backends_of_a_killed_one(server, folder):
    """A busy backend does not notice that its server died, and still writes to the data."""
    write_rows(server.dsn)
    busy = psycopg.connect(server.dsn)
    backend = busy.info.backend_pid
    os.kill(backend, signal.SIGSTOP)

    kill(running_postmaster(folder))
    [watchdog] = watchdogs(folder)
    until_blocking(lambda: postmaster(folder) is None, "the server is gone")
    assert has_backends(folder)
    assert kept_rows(server.dsn) is None

    os.kill(backend, signal.SIGCONT)
    assert until_blocking(lambda: kept_rows(server.dsn), "the rows can be read") == 1000
    assert watchdogs(folder) == [watchdog]
    busy.close()


def test_a_process_that_was_given_the_pid_of_a_killed_server_is_no_obstacle(join, folder):
    user = join(linger=LONG)
    write_rows(user.joined())
    user.kill()
    kill(*watchdogs(folder), running_postmaster(folder))
    until_quiet(folder)

    account = account_for(folder / "data")
    with subprocess.Popen(["sleep", "60"], user=account.user, group=account.group) as stranger:
        name_in_pid_files(folder, stranger.pid)
        with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
            assert kept_rows(server.dsn) == 1000
        assert stranger.poll() is None
        stranger.kill()


def name_in_pid_files(folder: Path, pid: int) -> None:
    pid_file = folder / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines(keepends=True)
    socket_lock = Path(lines[4].strip()) / f".s.PGSQL.{lines[3].strip()}.lock"
    for path in (pid_file, socket_lock):
        path.write_text("".join([f"{pid}\n", *path.read_text().splitlines(keepends=True)[1:]]))
