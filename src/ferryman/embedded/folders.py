"""The folder of an embedded server: which one it is, and who can enter it."""

import hashlib
import os
import stat
import sys
from pathlib import Path

from ferryman.embedded.account import ROOT, Account, account_for
from ferryman.embedded.paths import ServerFiles
from ferryman.embedded.programs import run_program
from ferryman.errors import EmbeddedServerError

SCHEME = "embedded:"
PASSABLE = 0o011
HARMLESS = {"lost+found", ".DS_Store", ".gitignore", ".gitkeep"}
PROJECT_FOLDER = ".ferryman"
LONGEST_NAME = 40
"""Characters of a project's name in the name of its folder, which may have 255 bytes."""
ROOTS_FOLDER = Path("/var/lib/ferryman")
HOMELESS_FOLDER = Path("/var/tmp")  # noqa: S108 - ownership is checked before use


def refuse_windows() -> None:
    """Raise `EmbeddedServerError` on Windows, which lacks the file locks and accounts that the private server needs."""
    if sys.platform == "win32":
        raise EmbeddedServerError(
            "the embedded server does not run on Windows yet, so none was started. Set DATABASE_URL to a PostgreSQL "
            "server that you have."
        )


def default_folder() -> Path:
    """Return the folder of this user's private server, for when no other folder is named.

    `$XDG_DATA_HOME/ferryman/postgres`, which is `~/.local/share/ferryman/postgres` unless set. Root's is
    `/var/lib/ferryman/postgres`, because the account that runs PostgreSQL cannot enter root's home. That of a user
    without a home is `/var/tmp/ferryman-<uid>/postgres`.
    """
    refuse_windows()
    if os.geteuid() == ROOT:
        return ROOTS_FOLDER / "postgres"
    share = Path(os.environ.get("XDG_DATA_HOME", ""))
    if share.is_absolute():
        return share / "ferryman" / "postgres"
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - unlike Path's, does not raise if the user has no home
    if home.is_dir() and os.access(home, os.W_OK):
        return home / ".local" / "share" / "ferryman" / "postgres"
    return HOMELESS_FOLDER / f"ferryman-{os.geteuid()}" / "postgres"


def make_project_folder(project: Path) -> Path:
    """Return the folder of a project's own server, `.ferryman/postgres`, and make git ignore it.

    A project that cannot hold the server gets a folder beside the default one: a read-only project, one whose
    `.ferryman` is a file or read-only, or one of root's that the account that runs PostgreSQL cannot enter.
    """
    refuse_windows()
    project = project.resolve()
    ours = project / PROJECT_FOLDER
    if not _may_hold_server(project, ours / "postgres"):
        digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:8]
        return default_folder().parent / "projects" / f"{project.name[:LONGEST_NAME] or 'root'}-{digest}"
    if not ours.exists():
        ours.mkdir(mode=0o711, exist_ok=True)  # another `ferryman dev` may start just now
        ours.chmod(0o711)  # PostgreSQL's account passes through, under any umask
    if not (ours / ".gitignore").exists():
        (ours / ".gitignore").write_text("*\n")
    return ours / "postgres"


def folder_of_dsn(dsn: str) -> Path:
    """Return the folder of the private server that a database URL names.

    The URL is `embedded:` (the default folder), `embedded:relative/path`, `embedded:/absolute/path` or
    `embedded:///absolute/path`.
    """
    if not dsn.startswith(SCHEME):
        raise EmbeddedServerError(  # without the address, which may contain a password
            "the address of an embedded server begins with 'embedded:', and this one does not. Write 'embedded:' or "
            "'embedded:/path'."
        )
    path = dsn.removeprefix(SCHEME)
    if path.startswith("///"):
        path = path.removeprefix("//")
    if path.startswith("//"):
        raise EmbeddedServerError(
            f"the database URL {dsn!r} has two slashes, so no server was started. Write embedded:{path[2:]} or "
            f"embedded:/{path}"
        )
    return Path(path) if path else default_folder()


def prepare_folder(folder: Path, account: Account) -> None:
    """Create a server's folder if it is missing. Check its owner, and that the account of PostgreSQL can enter it."""
    for missing in [path for path in (*reversed(folder.parents), folder) if not path.exists()]:
        _make(missing, account)
    _check_owner(folder)
    _check_squatters(folder)
    if account.is_borrowed:
        _let_pass(folder)
    _check_entry(folder, account)


def check_vacancy(files: ServerFiles) -> None:
    """Raise `EmbeddedServerError` if the folder of a new server already holds files that are not the server's."""
    others = sorted({path.name for path in files.folder.iterdir()} - HARMLESS)
    # Asked last: the leases are made first, so that what another process just made is known to be ours.
    if others and not files.leases.exists():
        raise EmbeddedServerError(
            f"{files.folder} is in use for other things ({', '.join(others[:3])}), so no server was started. Choose an "
            f"empty folder."
        )


# Entering and running are tried as the account: mode bits alone do not show access lists.


def can_enter(folder: Path, account: Account) -> bool:
    """True if the account can enter the folder."""
    try:
        return run_program(["/bin/sh", "-c", 'cd "$0"', folder], account).returncode == 0
    except PermissionError:
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, and this root may not become {account.name!r} (CAP_SETUID and "
            "CAP_SETGID are needed). Run as another user, or set DATABASE_URL to a server that you already have."
        ) from None


def can_run(program: Path, account: Account) -> bool:
    """True if the account can run a program that this process can run."""
    try:
        return run_program([program, "--version"], account).returncode == 0
    except PermissionError:
        return False


def _may_hold_server(project: Path, folder: Path) -> bool:
    parent = folder.parent if os.path.lexists(folder.parent) else project
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return False
    account = account_for(folder / "data")
    return not account.is_borrowed or can_enter(project, account)


def _make(folder: Path, account: Account) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if account.is_borrowed:
        _let_pass(folder)


def _let_pass(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode | PASSABLE != mode:
        folder.chmod(mode | PASSABLE)


def _check_owner(folder: Path) -> None:
    # Another user's folder could hold another user's server, password and programs.
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise EmbeddedServerError(f"{folder} is not a folder, so no server was started. Choose another path.")
    if found.st_uid != os.geteuid():
        raise EmbeddedServerError(
            f"{folder} belongs to user id {found.st_uid}, so no server was started. Choose another folder."
        )
    if _is_open_to_all(folder):
        raise EmbeddedServerError(
            f"every user may write to {folder}, so no server was started. Choose a folder that only you can write to."
        )


def _check_squatters(folder: Path) -> None:
    # In a folder such as /tmp every user may create names, and the user who made one owns all that lies below it.
    for path in folder.parents:
        if _is_open_to_all(path.parent) and path.stat().st_uid not in {ROOT, os.geteuid()}:
            raise EmbeddedServerError(
                f"{path} belongs to user id {path.stat().st_uid}, so no server was started. Choose another folder."
            )


def _is_open_to_all(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IWOTH)


def _check_entry(folder: Path, account: Account) -> None:
    if not account.is_borrowed or can_enter(folder, account):
        return
    path_down = (*reversed(folder.parents), folder)
    stopped_at = next((path for path in path_down if not can_enter(path, account)), folder)
    raise EmbeddedServerError(
        f"as root, PostgreSQL runs as {account.name!r}, which cannot enter {stopped_at}. Choose a folder that it "
        "can enter (the default one is), or run as another user."
    )
