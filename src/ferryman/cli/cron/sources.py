"""Where the schedules of a command come from: a pattern, a file, or an application."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ferryman.cli.worker.finding import find_app
from ferryman.cron import Crontab, parse_crontab, parse_timer
from ferryman.errors import CrontabError

if TYPE_CHECKING:
    from collections.abc import Sequence

PATTERN_TASK = "pattern"


def read_crontab(file: str, time_zone: str) -> list[Crontab]:
    """The entries of a file, or of standard input if it is called -."""
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CrontabError(f"{file} is not text in UTF-8: line {line} has a byte that is none of it") from None
    return parse_crontab(text, time_zone=time_zone)


def find_crontabs(source: str, time_zone: str) -> Sequence[Crontab]:
    """A pattern has spaces in it; a file is there; anything else names an application."""
    if " " in source.strip():
        return [Crontab(parse_timer(source.strip()), PATTERN_TASK, time_zone=time_zone)]
    if source == "-" or Path(source).is_file():
        return read_crontab(source, time_zone)
    return find_app(source).crontabs
