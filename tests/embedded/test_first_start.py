"""A folder in which no server was ever started."""

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from ferryman.embedded import EmbeddedPostgres
from ferryman.errors import EmbeddedServerError
from tests.support.embedded_processes import kill, until_quiet, waiting_programs, watchdogs
from tests.support.waiting import until_blocking


@pytest.fixture
def folder(fresh_folder: Path) -> Path:
    return fresh_folder


SLOW_INITDB = 240.0
"""Seconds that it may take on a disk that is in no hurry."""


def answer(dsn: str) -> int:
    with psycopg.connect(dsn, connect_timeout=60) as connection:
        return connection.execute("select 42").fetchone()[0]


def test_fifteen_processes_that_start_at_once_share_one_server(join, folder):
    users = [join() for _ in range(15)]

    [dsn] = {user.joined() for user in users}
    assert answer(dsn) == 42
    assert len(watchdogs(folder)) == 1

    for user in users:
        user.leave()
    until_quiet(folder)


def _is_over(folder: Path) -> bool:
    """A moment that nobody saw: what follows must hold all the same."""
    return (folder / "data").exists()


MOMENTS: dict[str, Callable[[Path], object]] = {
    "initdb began": lambda folder: list(folder.glob("init-*/")) or _is_over(folder),
    "the version was written": lambda folder: list(folder.glob("init-*/PG_VERSION")) or _is_over(folder),
    "the template was made": lambda folder: list(folder.glob("init-*/base/1/*")) or _is_over(folder),
    "the data was put in place": lambda folder: (folder / "data").exists(),
    "the server began": lambda folder: (folder / "data" / "postmaster.pid").exists(),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_first_start_that_is_killed_can_be_started_again(join, folder, moment):
    user = join()
    until_blocking(lambda: MOMENTS[moment](folder), moment, within=SLOW_INITDB)

    user.kill_with_children()

    with EmbeddedPostgres(folder, linger=timedelta(0), settings={"fsync": "off"}) as server:
        assert answer(server.dsn) == 42
    assert not list(folder.glob("init-*"))


def test_a_watchdog_that_is_killed_before_the_server_is_ready_is_replaced(join, spare_folder, open_folder):
    gate = open_folder / "gate"
    programs = waiting_programs(open_folder, "postgres", gate)
    user = join(spare_folder, env=os.environ | {"FERRYMAN_POSTGRES_BIN": str(programs)})

    kill(*until_blocking(lambda: watchdogs(spare_folder), "a watchdog"))
    gate.touch()

    assert answer(user.joined()) == 42
    assert len(watchdogs(spare_folder)) == 1


def test_a_newcomer_waits_for_the_initdb_of_a_killed_user(join, folder):
    """It would otherwise clear away what that initdb still writes."""
    user = join()
    until_blocking(lambda: MOMENTS["the version was written"](folder), "initdb is at work")

    user.kill()

    with EmbeddedPostgres(folder, linger=timedelta(0), settings={"fsync": "off"}) as server:
        assert answer(server.dsn) == 42
    assert not list(folder.glob("init-*"))


def is_removed(folder: Path) -> bool:
    """Remove it, however often a running server gets in between by adding and removing files of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@pytest.mark.parametrize("is_adopted", [False, True])
def test_a_server_whose_folder_is_removed_ends(join, spare_folder, is_adopted):
    with EmbeddedPostgres(spare_folder, linger=timedelta(0), settings={"fsync": "off"}) as server:
        sockets = server._address.socket_folder
        if is_adopted:
            kill(*watchdogs(spare_folder))
            join(spare_folder).joined()

        until_blocking(lambda: is_removed(spare_folder), "the folder is removed")

        until_quiet(spare_folder)
        assert not spare_folder.exists()
        assert not sockets.exists()


def test_an_initdb_that_fails_is_quoted_and_leaves_nothing_behind(folder, open_folder):
    programs = open_folder / "bin"
    programs.mkdir(mode=0o755)
    for name, script in {
        "postgres": "echo 'postgres (PostgreSQL) 17.2'",
        "initdb": "[ $1 = --version ] && echo 'initdb (PostgreSQL) 17.2' && exit; echo 'no space left' >&2; exit 1",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    with pytest.raises(EmbeddedServerError, match=r"initdb could not make .*/server/data: no space left"):
        EmbeddedPostgres(folder, binaries=programs).start()
    assert not (folder / "data").exists()
    assert not list(folder.glob("init-*"))
