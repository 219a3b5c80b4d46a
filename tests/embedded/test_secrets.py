"""Who learns the password: nobody but the owner of the folder."""

import os
import subprocess
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from ferryman.embedded import EmbeddedPostgres
from ferryman.embedded.paths import ServerFiles, read_place
from tests.support.embedded_processes import (
    command_lines,
    running_postmaster,
    until_quiet,
    waiting_programs,
    watchdogs,
)
from tests.support.waiting import until_blocking


def password_of(folder: Path) -> str:
    return (folder / "password").read_text()


def test_the_password_is_in_one_file_that_only_the_owner_reads(server, folder):
    # It complains about files that vanish while it looks.
    found = subprocess.run(["grep", "-rlF", password_of(folder), folder], check=False, capture_output=True, text=True)

    assert found.stdout.split() == [str(folder / "password")]
    assert (folder / "password").stat().st_mode & 0o777 == 0o600
    assert (folder / "password").stat().st_uid == os.geteuid()


def test_no_command_line_shows_the_password_at_any_moment(join, fresh_folder, open_folder):
    gate, seen = open_folder / "gate", set()
    programs = waiting_programs(open_folder, "initdb", gate)
    user = join(fresh_folder, env=os.environ | {"FERRYMAN_POSTGRES_BIN": str(programs)})

    def has_shown(what: str) -> bool:
        seen.update(line for _, line in command_lines() if str(fresh_folder) in line)
        return any(what in line for line in seen)

    until_blocking(lambda: has_shown("/initdb --pgdata="), "initdb waits at the gate")
    gate.touch()
    until_blocking(lambda: has_shown("/postgres -D "), "the server is there", within=240)  # initdb may take its time
    user.joined()

    assert not [line for line in seen if password_of(fresh_folder) in line]


def test_the_server_does_not_inherit_the_environment_of_its_first_user(join, folder, monkeypatch):
    monkeypatch.setenv("A_CLOUD_KEY", "hunter2")
    join().joined()

    for pid in (running_postmaster(folder), *watchdogs(folder)):
        environment = environment_of(pid)
        assert "LC_ALL=C" in environment
        assert "hunter2" not in environment


def environment_of(pid: int) -> str:
    """As its own account sees it: root in a container may not look."""
    owner = Path(f"/proc/{pid}").stat()
    as_owner = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.check_output(["cat", f"/proc/{pid}/environ"], text=True, **as_owner)


def test_neither_repr_nor_log_shows_the_password(server, folder):
    with pytest.raises(psycopg.OperationalError), psycopg.connect(server.tcp_dsn, dbname="missing"):
        pass

    for text in (repr(server), repr(server._address), (folder / "server.log").read_text()):
        assert password_of(folder) not in text


@pytest.mark.parametrize("address", ["dsn", "tcp_dsn"])
@pytest.mark.parametrize("password", ["", "wrong"])
def test_nobody_comes_in_without_the_password(server, address, password):
    dsn = getattr(server, address)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(psycopg.conninfo.make_conninfo(dsn, password=password), connect_timeout=60)


def test_the_socket_is_closed_to_other_accounts(server):
    sockets = server._address.socket_folder
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert len(str(sockets)) < 40


def test_the_server_listens_on_this_machine_only(server):
    with psycopg.connect(server.dsn) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("127.0.0.1",)


def test_only_the_owner_reads_the_log(server, folder):
    assert (folder / "server.log").stat().st_mode & 0o777 == 0o600


def test_a_socket_folder_that_somebody_else_put_in_our_place_is_not_used(join, folder):
    user = join(linger=0)
    user.joined()
    place = read_place(ServerFiles(folder))
    user.leave()
    until_quiet(folder)

    Path(place.socket_folder).mkdir(mode=0o777)
    Path(place.socket_folder).chmod(0o777)
    try:
        with EmbeddedPostgres(folder, linger=timedelta(0)) as server:
            assert str(server._address.socket_folder) != place.socket_folder
    finally:
        Path(place.socket_folder).rmdir()
