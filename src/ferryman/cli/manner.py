"""How to report an error, known before the arguments are understood."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from ferryman.cli.beginning import WORKERS

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Manner:
    """Whether errors are told as JSON, or as a line of a JSON log, and whether with a traceback."""

    as_json: bool = False
    debug: bool = False
    as_log: bool = False

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Manner:
        """Read from the bare arguments, since a usage error must be told in the manner asked for too."""
        options = list(takewhile(lambda argument: argument != "--", arguments))
        wanted = os.environ.get("FERRYMAN_DEBUG", "") not in {"", "0"}
        return cls("--json" in options, wanted or "--debug" in options, _wants_json_logs(options))


def _wants_json_logs(options: Sequence[str]) -> bool:
    if WORKERS.isdisjoint(options[:1]):
        return False
    words = " ".join(options).replace("=", " ").split()
    given = [value for name, value in pairwise(words) if name == "--log-format"]
    return (given or [os.environ.get("FERRYMAN_LOG_FORMAT", "")])[-1] == "json"
