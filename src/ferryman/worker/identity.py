"""The name under which a worker claims."""

from __future__ import annotations

import os


class Identity:
    """The worker's id, shared by all its parts. It changes after the worker was declared dead.

    The id says whether the worker registers itself. If it does not, nobody can know whether it lives, and nobody may
    take its jobs.
    """

    __slots__ = ("_prefix", "id")

    def __init__(self, *, registers: bool = True) -> None:
        self._prefix = "ferryman-" if registers else "ferryman_unregistered-"
        self.renew()

    def renew(self) -> str:
        """Take a new id; what was claimed under the old one can no longer be settled."""
        self.id = self._prefix + os.urandom(9).hex()
        return self.id
