"""Values whose printed form is chosen with care, because not everything in them is for everybody's eyes."""

from __future__ import annotations

from typing import NoReturn

import msgspec


class Discreet(msgspec.Struct, frozen=True):
    """A value that rich prints as `repr` does. It would show every field of any other struct."""

    def __rich_repr__(self) -> NoReturn:
        """Let rich fall back to `repr`."""
        raise NotImplementedError
