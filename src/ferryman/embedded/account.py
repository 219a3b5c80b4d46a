"""Chooses the operating system's account that runs a private PostgreSQL.

PostgreSQL refuses to run as root. If this process is root, an account that exists already runs it. No account is
created, and the modes of folders above the server's folder stay as they are: if the account cannot enter one of them,
the error names it.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ferryman.errors import EmbeddedServerError

if sys.platform != "win32":
    import pwd

ROOT = 0
BORROWED = ("postgres", "nobody", "daemon")
"""Accounts that root lets run PostgreSQL: the first one that exists."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account of the operating system, and the arguments that make `subprocess` run a program as it.

    An argument of None keeps the current account.
    """

    name: str
    uid: int
    gid: int

    @property
    def is_borrowed(self) -> bool:
        """True if this process has to change accounts to run PostgreSQL."""
        return self.uid != os.geteuid()

    @property
    def user(self) -> int | None:
        """The argument of `subprocess.Popen(user=...)`."""
        return self.uid if self.is_borrowed else None

    @property
    def group(self) -> int | None:
        """The argument of `subprocess.Popen(group=...)`."""
        return self.gid if self.is_borrowed else None

    @property
    def extra_groups(self) -> list[int] | None:
        """The argument of `subprocess.Popen(extra_groups=...)`. A borrowed account gets none of root's groups."""
        return [] if self.is_borrowed else None

    def receive(self, path: Path) -> None:
        """Make the account the owner of a path that this process has made."""
        if self.is_borrowed:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def account_for(data: Path) -> Account:
    """Choose the account that runs PostgreSQL on a data folder: its owner, if it exists already."""
    if os.geteuid() != ROOT:
        return _account_of(os.geteuid())
    try:
        owner = data.stat().st_uid
    except FileNotFoundError:
        return _unprivileged()
    if owner == ROOT:
        raise EmbeddedServerError(
            f"{data} belongs to root, and PostgreSQL refuses to run as root. Choose another folder, or give this one "
            "to another account with chown."
        )
    return _account_of(owner)


def _account_of(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedServerError(
            f"user id {uid} has no entry in the password database, and PostgreSQL needs one. "
            "Add one (in a container: to /etc/passwd), or set DATABASE_URL to a server that you already have."
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _unprivileged() -> Account:
    for name in BORROWED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != ROOT:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedServerError(
        f"PostgreSQL refuses to run as root, and none of the accounts {', '.join(BORROWED)} exists. "
        "Run as another user, or set DATABASE_URL to a server that you already have."
    )
