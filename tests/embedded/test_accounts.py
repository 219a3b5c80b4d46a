"""As root, as nobody, and where PostgreSQL cannot run at all."""

import os
import pwd
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from ferryman.embedded import EmbeddedPostgres, ServerBinaries, find_binaries, folders
from ferryman.embedded.account import Account, account_for
from ferryman.embedded.binaries import usable_by
from ferryman.embedded.locks import Deadline
from ferryman.errors import EmbeddedServerError
from tests.support.embedded_processes import USER, copy_package, running_postmaster, until_quiet
from tests.support.network import find_pgbouncer

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="is about root")


def modes(folder: Path) -> list[int]:
    return [path.stat().st_mode for path in folder.parents]


@as_root
def test_root_runs_the_server_as_an_account_that_was_there_before(fresh_folder):
    find_pgbouncer()  # its package adds an account, and other tests install it when they first need it
    accounts, parents = Path("/etc/passwd").read_bytes(), modes(fresh_folder)

    with EmbeddedPostgres(fresh_folder, linger=timedelta(0)) as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
        runs_as = Path(f"/proc/{running_postmaster(fresh_folder)}").stat().st_uid

    assert runs_as != 0
    assert (fresh_folder / "data").stat().st_uid == runs_as
    assert {path.name for path in fresh_folder.iterdir() if path.stat().st_uid != 0} == {"data"}
    assert Path("/etc/passwd").read_bytes() == accounts
    assert modes(fresh_folder) == parents


@as_root
def test_data_keeps_the_account_that_owns_it(tmp_path):
    nobody = pwd.getpwnam("nobody")
    os.chown(tmp_path, nobody.pw_uid, nobody.pw_gid)
    assert account_for(tmp_path) == Account("nobody", nobody.pw_uid, nobody.pw_gid)


@as_root
def test_data_that_belongs_to_root_is_refused(tmp_path):
    with pytest.raises(EmbeddedServerError, match="belongs to root"):
        account_for(tmp_path)


@as_root
def test_a_folder_behind_a_closed_one_is_refused_by_the_name_of_the_closed_one(open_folder):
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(EmbeddedServerError, match=f"cannot enter {closed}. Choose a folder that it"):
        EmbeddedPostgres(closed / "deep" / "server").start()
    assert closed.stat().st_mode & 0o777 == 0o700


@as_root
def test_root_that_may_not_change_accounts_is_told_so(open_folder):
    script = f"from ferryman.embedded import EmbeddedPostgres; EmbeddedPostgres({str(open_folder / 'x')!r}).start()"
    bounded = ["setpriv", "--bounding-set", "-setuid,-setgid", "--inh-caps", "-setuid,-setgid"]

    outcome = subprocess.run([*bounded, sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert "this root may not become" in outcome.stderr


@pytest.fixture
def closed_binaries(spare_folder: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> ServerBinaries:
    """Programs in a place that only root can reach, as in a virtual environment below /root.

    After the spare folder, whose server may be made for it: its programs do not belong into the folder of this test.
    """
    monkeypatch.setattr(folders, "ROOTS_FOLDER", open_folder / "root")
    found = find_binaries()
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    for part in found.parts:
        shutil.copytree(part, closed / part.relative_to(found.parts[0].parent.parent), symlinks=True)
    parts = tuple(closed / part.relative_to(found.parts[0].parent.parent) for part in found.parts)
    return ServerBinaries(parts[0] / "bin", found.version, found.source, parts)


@as_root
def test_programs_that_only_root_can_reach_are_copied_once(closed_binaries, spare_folder, open_folder):
    with EmbeddedPostgres(spare_folder, binaries=closed_binaries, linger=timedelta(0)) as server:
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        [copy] = (open_folder / "root" / "programs").glob("*/")

    made_at = copy.stat().st_ctime_ns
    again = usable_by(account_for(spare_folder / "data"), closed_binaries, Deadline.after(60))
    assert again.folder.is_relative_to(copy)
    assert copy.stat().st_ctime_ns == made_at


@as_root
def test_a_copy_of_programs_whose_original_is_gone_is_removed_unless_a_server_runs_from_it(open_folder, monkeypatch):
    monkeypatch.setattr(folders, "ROOTS_FOLDER", open_folder / "root")
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)

    def copied(name: str) -> Path:
        folder = closed / name / "server" / "bin"
        folder.mkdir(parents=True)
        shutil.copy(shutil.which("sleep"), folder / "postgres")
        binaries = ServerBinaries(folder, "17.2", "wheel", (folder.parent,))
        return usable_by(account_for(open_folder / "none"), binaries, Deadline.after(60)).folder / "postgres"

    kept, idle, running = map(copied, ("kept", "idle", "running"))
    shutil.rmtree(closed / "idle")
    shutil.rmtree(closed / "running")
    with subprocess.Popen([running, "3600"]) as server:
        newest = copied("newest")
        while_used = [copy.exists() for copy in (kept, idle, running, newest)]
        server.kill()
    copied("another")

    assert while_used == [True, False, True, True]
    assert [copy.exists() for copy in (kept, running, newest)] == [True, False, True]


@as_root
def test_programs_that_cannot_be_copied_are_refused_by_name(open_folder):
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    binaries = ServerBinaries(closed, "17.2", "argument")

    with pytest.raises(EmbeddedServerError, match=f"cannot run the programs in {closed}"):
        usable_by(account_for(open_folder / "none"), binaries, Deadline.after(60))


def python_for(account: pwd.struct_passwd) -> str:
    """A Python that the account can run; the one that runs the tests may lie in a closed folder."""
    is_new_enough = "import sys; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            subprocess.run([python, "-c", is_new_enough], check=True, cwd="/", user=account.pw_uid)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip(f"no Python 3.11 that {account.pw_name} can run")


@pytest.fixture
def nobody(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What it takes to run a user of the server as nobody."""
    account = pwd.getpwnam("nobody")
    monkeypatch.setattr(folders, "ROOTS_FOLDER", open_folder / "root")
    as_account = Account(account.pw_name, account.pw_uid, account.pw_gid)
    programs = usable_by(as_account, find_binaries(), Deadline.after(60))
    library = copy_package(open_folder)
    return {
        "python": python_for(account),
        "script": shutil.copy(USER, library),
        "user": account.pw_uid,
        "group": account.pw_gid,
        "extra_groups": [],
        "cwd": "/",
        "env": {"PYTHONPATH": str(library), "FERRYMAN_POSTGRES_BIN": str(programs.folder)},
    }


@as_root
def test_an_ordinary_user_runs_the_server_as_himself(join, nobody, open_folder):
    own = open_folder / "own"
    own.mkdir()
    os.chown(own, nobody["user"], nobody["group"])
    folder = own / "server"

    user = join(folder, **nobody)
    with psycopg.connect(user.joined()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    owners = {path.stat().st_uid for path in (folder, *folder.iterdir())}
    closed = {path.name for path in (folder, *folder.iterdir()) if path.stat().st_mode & 0o077}
    user.leave()

    assert owners == {nobody["user"]}
    assert closed == set()
    until_quiet(folder)


def test_a_user_id_without_an_account_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1234567)
    with pytest.raises(EmbeddedServerError, match=r"user id 1234567 has no entry .*DATABASE_URL"):
        EmbeddedPostgres(tmp_path).start()


def test_root_without_any_other_account_is_told_what_to_do(monkeypatch, tmp_path):
    def nobody_is_there(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", nobody_is_there)
    with pytest.raises(EmbeddedServerError, match="none of the accounts postgres, nobody, daemon exists"):
        EmbeddedPostgres(tmp_path / "server").start()


def test_windows_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EmbeddedServerError, match=r"not run on Windows yet, so none was started\. Set DATABASE_URL"):
        EmbeddedPostgres(tmp_path).start()
    with pytest.raises(EmbeddedServerError, match=r"not run on Windows yet, so none was started\. Set DATABASE_URL"):
        EmbeddedPostgres.from_dsn("embedded:")
