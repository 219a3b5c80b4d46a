"""Which account PostgreSQL runs as.

PostgreSQL refuses to run as root, so root lends it an account that exists already. No account is created and no
mode of a folder above ours is changed: if the account cannot come in, the error says where it is stopped.
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


@dataclass(frozen=True, slots=True)
class Account:
    """An account, and how to become it; `subprocess` takes None for "stay who you are"."""

    name: str
    uid: int
    gid: int

    @property
    def is_borrowed(self) -> bool:
        """Whether this process has to change accounts to run PostgreSQL."""
        return self.uid != os.geteuid()

    @property
    def user(self) -> int | None:
        """For `subprocess.Popen(user=...)`."""
        return self.uid if self.is_borrowed else None

    @property
    def group(self) -> int | None:
        """For `subprocess.Popen(group=...)`."""
        return self.gid if self.is_borrowed else None

    @property
    def extra_groups(self) -> list[int] | None:
        """For `subprocess.Popen(extra_groups=...)`: none of root's groups go along."""
        return [] if self.is_borrowed else None

    def own(self, path: Path) -> None:
        """Give a path that we made to the account."""
        if self.is_borrowed:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def account_for(data: Path) -> Account:
    """Choose the account for a data folder that may not exist yet; its owner keeps it once it does."""
    if os.geteuid() != ROOT:
        return _account_of(os.geteuid())
    try:
        owner = data.stat().st_uid
    except FileNotFoundError:
        return _unprivileged()
    if owner == ROOT:
        raise EmbeddedServerError(f"{data} belongs to root, and PostgreSQL refuses to run as root")
    return _account_of(owner)


def _account_of(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedServerError(
            f"user id {uid} has no entry in the password database, which PostgreSQL insists on. "
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
