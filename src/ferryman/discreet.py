"""Values whose printed form leaves out fields that may be secret, such as payloads."""

from __future__ import annotations

from typing import NoReturn

import msgspec


class Discreet(msgspec.Struct, frozen=True):
    """A struct that rich prints by its `repr`; rich shows every field of other structs."""

    def __rich_repr__(self) -> NoReturn:
        """Make rich fall back to `repr`."""
        raise NotImplementedError
