"""The folder of an embedded server: which one, and made so that only we can use it."""

import hashlib
import os
import stat
import sys
from pathlib import Path

from ferryman.embedded.account import ROOT, Account, account_for
from ferryman.embedded.layout import Layout
from ferryman.embedded.reach import can_enter, check_reach
from ferryman.errors import EmbeddedServerError

SCHEME = "embedded:"
PASSABLE = 0o011
HARMLESS = {"lost+found", ".DS_Store", ".gitignore", ".gitkeep"}
OF_A_PROJECT = ".ferryman"
LONGEST_NAME = 40
"""Characters of a project's name in the name of its folder, which may have 255 bytes."""
OF_ROOT = Path("/var/lib/ferryman")
OF_THE_HOMELESS = Path("/var/tmp")  # noqa: S108 - ownership is checked before use


def refuse_windows() -> None:
    """Say what to do where there are neither flock nor accounts to change to."""
    if sys.platform == "win32":
        raise EmbeddedServerError(
            "the embedded server does not run on Windows yet; set DATABASE_URL to a PostgreSQL that you have"
        )


def default_folder() -> Path:
    """The folder of this user's own server.

    `$XDG_DATA_HOME/ferryman/postgres`, which is `~/.local/share/ferryman/postgres` unless set. Root's home is closed
    to the account that PostgreSQL runs as, so root has `/var/lib/ferryman/postgres`; a user without a home has
    `/var/tmp/ferryman-<uid>/postgres`.
    """
    refuse_windows()
    if os.geteuid() == ROOT:
        return OF_ROOT / "postgres"
    share = Path(os.environ.get("XDG_DATA_HOME", ""))
    if share.is_absolute():
        return share / "ferryman" / "postgres"
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - unlike Path's, does not raise where nobody has a home
    if home.is_dir() and os.access(home, os.W_OK):
        return home / ".local" / "share" / "ferryman" / "postgres"
    return OF_THE_HOMELESS / f"ferryman-{os.geteuid()}" / "postgres"


def make_project_folder(project: Path) -> Path:
    """Choose the folder of a project's own server, `.ferryman/postgres`, and let git ignore it.

    A project that cannot hold it has a folder of its own beside the default one: a read-only project, one whose
    `.ferryman` is a file or read-only, or one of root's that is closed to the account that PostgreSQL runs as.
    """
    refuse_windows()
    project = project.resolve()
    ours = project / OF_A_PROJECT
    if not _may_hold_server(project, ours / "postgres"):
        digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:8]
        return default_folder().parent / "projects" / f"{project.name[:LONGEST_NAME] or 'root'}-{digest}"
    if not ours.exists():
        ours.mkdir(mode=0o711, exist_ok=True)  # another `ferryman dev` may start just now
        ours.chmod(0o711)  # whatever the umask is, PostgreSQL's account passes through
    if not (ours / ".gitignore").exists():
        (ours / ".gitignore").write_text("*\n")
    return ours / "postgres"


def _may_hold_server(project: Path, folder: Path) -> bool:
    place = folder.parent if os.path.lexists(folder.parent) else project
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return False
    account = account_for(folder / "data")
    return not account.is_borrowed or can_enter(project, account)


def folder_of_dsn(dsn: str) -> Path:
    """Read `embedded:`, `embedded:relative/path`, `embedded:/absolute/path` or `embedded:///absolute/path`."""
    if not dsn.startswith(SCHEME):
        raise EmbeddedServerError(
            f"an embedded server is asked for by 'embedded:' or 'embedded:/path', not {dsn[:20]!r}"
        )
    path = dsn.removeprefix(SCHEME)
    if path.startswith("///"):
        path = path.removeprefix("//")
    if path.startswith("//"):
        raise EmbeddedServerError(f"{dsn!r} has two slashes: write embedded:{path[2:]} or embedded:/{path}")
    return Path(path) if path else default_folder()


def prepare_folder(folder: Path, account: Account) -> None:
    """Make the folder, and make sure that it is ours and that PostgreSQL's account can come in."""
    for missing in [path for path in (*reversed(folder.parents), folder) if not path.exists()]:
        _make(missing, account)
    _check_owner(folder)
    _check_squatters(folder)
    if account.is_borrowed:
        _let_pass(folder)
    check_reach(folder, account)


def check_vacancy(layout: Layout) -> None:
    """Refuse a folder with other things in it: ours are made and removed by name."""
    others = sorted({path.name for path in layout.folder.iterdir()} - HARMLESS)
    # Asked last: the leases are made first, so that what another process just made is known to be ours.
    if others and not layout.leases.exists():
        raise EmbeddedServerError(
            f"{layout.folder} is in use for other things ({', '.join(others[:3])}); choose an empty folder"
        )


def _make(folder: Path, account: Account) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if account.is_borrowed:
        _let_pass(folder)


def _let_pass(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode | PASSABLE != mode:
        folder.chmod(mode | PASSABLE)


def _check_owner(folder: Path) -> None:
    # Somebody else's folder could hold somebody else's server, password and programs.
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise EmbeddedServerError(f"{folder} is not a folder")
    if found.st_uid != os.geteuid():
        raise EmbeddedServerError(f"{folder} belongs to user id {found.st_uid}; choose another folder")
    if _is_open_to_all(folder):
        raise EmbeddedServerError(f"anybody may write to {folder}; choose a folder of your own")


def _check_squatters(folder: Path) -> None:
    # Where anybody may create names, as in /tmp, whoever came first owns all that lies below.
    for path in folder.parents:
        if _is_open_to_all(path.parent) and path.stat().st_uid not in {ROOT, os.geteuid()}:
            raise EmbeddedServerError(f"{path} belongs to user id {path.stat().st_uid}; choose another folder")


def _is_open_to_all(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IWOTH)
