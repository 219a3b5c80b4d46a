"""Which folder, and whose."""

import os
from pathlib import Path

import pytest

from ferryman.embedded import EmbeddedPostgres, default_folder, folders
from ferryman.embedded.account import Account, account_for
from ferryman.embedded.paths import ServerFiles
from ferryman.errors import EmbeddedServerError

OURSELVES = Account("somebody", os.geteuid(), os.getegid())
ALICE = 1001


@pytest.mark.parametrize(
    ("dsn", "folder"),
    [
        ("embedded:/var/db", "/var/db"),
        ("embedded:///var/db", "/var/db"),
        ("embedded:/with space/%20", "/with space/%20"),
    ],
)
def test_an_absolute_folder_is_taken_as_it_is_written(dsn, folder):
    assert EmbeddedPostgres.from_dsn(dsn).folder == Path(folder)


def test_a_relative_folder_is_taken_from_where_the_program_stands(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert EmbeddedPostgres.from_dsn("embedded:state/db").folder == tmp_path.resolve() / "state" / "db"


def test_no_folder_means_the_default_one():
    assert EmbeddedPostgres.from_dsn("embedded:").folder == default_folder().resolve()


def test_two_slashes_are_refused_because_they_would_name_a_host():
    with pytest.raises(EmbeddedServerError, match="Write embedded:var/db or embedded:///var/db"):
        EmbeddedPostgres.from_dsn("embedded://var/db")


def test_the_password_of_another_connection_string_is_not_repeated():
    with pytest.raises(EmbeddedServerError) as problem:
        EmbeddedPostgres.from_dsn("postgresql://me:secret@host/db")
    assert "secr" not in str(problem.value)


@pytest.fixture
def alice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user who is not root, in her home."""
    monkeypatch.setattr(os, "geteuid", lambda: ALICE)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return tmp_path


def test_a_users_default_folder_is_in_her_home(alice):
    assert default_folder() == alice / ".local/share/ferryman/postgres"


def test_the_desktops_data_folder_is_respected_if_absolute(alice, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/data/alice")
    assert default_folder() == Path("/data/alice/ferryman/postgres")

    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_folder() == alice / ".local/share/ferryman/postgres"


def test_a_user_without_a_home_has_a_default_folder_all_the_same(alice, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    assert default_folder() == Path(f"/var/tmp/ferryman-{ALICE}/postgres")


def test_roots_default_folder_is_open_to_other_accounts(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_folder() == Path("/var/lib/ferryman/postgres")


def test_a_folder_is_made_with_its_parents_and_closed_to_others(tmp_path):
    folders.prepare_folder(tmp_path / "a" / "b", OURSELVES)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_folder_of_somebody_else_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: ALICE)
    with pytest.raises(EmbeddedServerError, match=f"{tmp_path} belongs to user id"):
        folders.prepare_folder(tmp_path, OURSELVES)


def test_a_folder_that_anybody_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o1777)
    with pytest.raises(EmbeddedServerError, match="every user may write"):
        folders.prepare_folder(tmp_path, OURSELVES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_name_that_a_squatter_took_in_a_public_folder_is_refused(tmp_path):
    public, taken = tmp_path / "public", tmp_path / "public" / "ferryman-0"
    taken.mkdir(parents=True)
    public.chmod(0o1777)
    os.chown(taken, ALICE, ALICE)

    with pytest.raises(EmbeddedServerError, match=f"{taken} belongs to user id {ALICE}"):
        folders.prepare_folder(taken / "postgres", OURSELVES)


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedServerError, match="not a folder"):
        folders.prepare_folder(tmp_path / "file", OURSELVES)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "password").write_text("of something else")
    with pytest.raises(EmbeddedServerError, match="in use for other things"):
        folders.check_vacancy(ServerFiles(tmp_path))


def test_the_root_of_a_volume_counts_as_empty(tmp_path):
    (tmp_path / "lost+found").mkdir()
    folders.check_vacancy(ServerFiles(tmp_path))


def test_data_that_is_no_data_is_refused(open_folder):
    (open_folder / "leases.lock").touch()
    (open_folder / "data").mkdir()
    if os.geteuid() == 0:
        os.chown(open_folder / "data", account_for(open_folder / "none").uid, -1)

    with pytest.raises(EmbeddedServerError, match="is not a PostgreSQL data folder"):
        EmbeddedPostgres(open_folder).start()


def test_a_disk_that_refuses_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedServerError, match=r"cannot run PostgreSQL in .*/file/below"):
        EmbeddedPostgres(tmp_path / "file" / "below").start()


def test_a_project_has_a_server_of_its_own_which_git_ignores(open_folder):
    projects = [open_folder / name for name in ("one", "two")]
    for project in projects:
        project.mkdir(mode=0o755)
        assert folders.make_project_folder(project) == project / ".ferryman" / "postgres"
        assert (project / ".ferryman" / ".gitignore").read_text() == "*\n"
        assert folders.make_project_folder(project) == project / ".ferryman" / "postgres"


def test_a_project_that_cannot_hold_a_server_has_one_elsewhere_and_no_other_project_shares_it(open_folder, monkeypatch):
    monkeypatch.setattr(folders, "default_folder", lambda: open_folder / "share" / "postgres")
    closed = open_folder / "root"
    closed.mkdir(mode=0o700)
    projects = [closed / "shop", closed / "old" / "shop"]
    for project in projects:
        project.mkdir(parents=True)
        project.chmod(0o500)  # closed to PostgreSQL's account if we are root, and read-only if we are not

    chosen = [folders.make_project_folder(project) for project in projects]

    assert all(folder.is_relative_to(open_folder / "share" / "projects") for folder in chosen)
    assert all(folder.name.startswith("shop-") for folder in chosen)
    assert len({*chosen, *map(folders.make_project_folder, projects)}) == 2
    assert not any((project / ".ferryman").exists() for project in projects)


def test_a_name_that_is_taken_or_very_long_does_not_keep_a_project_from_having_a_server(open_folder, monkeypatch):
    monkeypatch.setattr(folders, "default_folder", lambda: open_folder / "share" / "postgres")
    taken, dangling, long = (open_folder / name for name in ("taken", "dangling", "ü" * 125))
    for project in (taken, dangling):
        project.mkdir(mode=0o755)
    (taken / ".ferryman").write_text("something else")
    (dangling / ".ferryman").symlink_to(open_folder / "nowhere")
    long.mkdir(mode=0o500)

    for project in (taken, dangling, long):
        folder = folders.make_project_folder(project)
        assert folder.is_relative_to(open_folder / "share" / "projects")
        folders.prepare_folder(folder, OURSELVES)
