"""How to report an error, known before the arguments are understood."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Manner:
    """Whether errors are told as JSON, and whether with a traceback."""

    as_json: bool = False
    debug: bool = False

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Manner:
        """Read from the bare arguments, since a usage error must be told in the manner asked for too."""
        options = list(takewhile(lambda argument: argument != "--", arguments))
        wanted = os.environ.get("FERRYMAN_DEBUG", "") not in {"", "0"}
        return cls(as_json="--json" in options, debug=wanted or "--debug" in options)
