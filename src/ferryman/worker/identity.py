"""The id under which a worker claims."""

from __future__ import annotations

import os


class Identity:
    """The worker's id, shared by all its parts. It changes after the worker was declared dead.

    The id shows whether the worker registers itself. If it does not, no other worker can know whether it is alive,
    and none may recover its jobs.
    """

    __slots__ = ("_prefix", "id")

    def __init__(self, *, registers: bool = True) -> None:
        self._prefix = "ferryman-" if registers else "ferryman_unregistered-"
        self.renew()

    def renew(self) -> str:
        """Take a new id. Claims of the old one can no longer be settled."""
        self.id = self._prefix + os.urandom(9).hex()
        return self.id
