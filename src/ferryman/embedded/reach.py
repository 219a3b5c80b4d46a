"""Asks whether PostgreSQL's account can use a path.

Asked of the kernel, by trying as that account: mode bits alone do not know of access lists.
"""

from pathlib import Path

from ferryman.embedded.account import Account
from ferryman.embedded.programs import run_program
from ferryman.errors import EmbeddedServerError


def check_reach(folder: Path, account: Account) -> None:
    """Make sure that the account can come into a folder; the error names the folder that stops it."""
    if not account.is_borrowed or can_enter(folder, account):
        return
    path_down = (*reversed(folder.parents), folder)
    stopped_at = next((path for path in path_down if not can_enter(path, account)), folder)
    raise EmbeddedServerError(
        f"as root, PostgreSQL runs as {account.name!r}, which cannot enter {stopped_at}. Choose a folder that it "
        "can reach (the default one is), or run as another user."
    )


def can_enter(folder: Path, account: Account) -> bool:
    """Whether the account can come into a folder."""
    try:
        return run_program(["/bin/sh", "-c", 'cd "$0"', folder], account).returncode == 0
    except PermissionError:
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, and this root may not become {account.name!r} (CAP_SETUID and "
            "CAP_SETGID are needed). Run as another user, or set DATABASE_URL to a server that you already have."
        ) from None


def can_run(program: Path, account: Account) -> bool:
    """Whether the account can run a program that the caller itself can run."""
    try:
        return run_program([program, "--version"], account).returncode == 0
    except PermissionError:
        return False
