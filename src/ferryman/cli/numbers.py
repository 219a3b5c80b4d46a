"""Numbers on the command line. Each has a least and a greatest value, which the help page and every refusal name."""

from __future__ import annotations

import math
import re
from typing import Any

import click

from ferryman.jobs import SMALLINT_MAX, SMALLINT_MIN
from ferryman.worker.options import LEAST_MEMORY

MOST_PROCESSES = 1024
MOST_CONCURRENCY = 10_000
MOST_CONNECTIONS = 10_000
MOST_SECONDS = 604_800.0
"""A week."""
MOST_JOBS = 1_000_000_000
MAX_PAGE_SIZE = 10_000
LARGEST_ID = 2**63 - 1
"""Of PostgreSQL's bigint."""

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(?P<number>[0-9]{1,20})(?P<unit>[KMGTkmgt]?)(?:i?[Bb])?")


class Whole(click.IntRange):
    """A whole number from `least` to `most`."""

    name = "whole number"

    def __init__(self, least: int, most: int) -> None:
        super().__init__(least, most)

    def get_metavar(self, param: click.Parameter, ctx: Any = None) -> str:  # noqa: ARG002 - click's
        """The word for it on the help page."""
        return "N"


class Number(click.FloatRange):
    """A number from `least` to `most`, fractions included: what a program can count with or wait for.

    unit: what is counted, in the plural
    """

    def __init__(self, least: float, most: float, unit: str) -> None:
        super().__init__(least, most)
        self.name = unit
        self._unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, within its range. What is no number at all is within every range of click's."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number of {self._unit}.", param, ctx)
        return float(number)


class Size(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes from `least` to `most`: `512M`, `2G`, or plain bytes."""

    name = "size"

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is not a size. Give 512M, 2G or a number of bytes; units are K, M, G, T.", param, ctx)
        size = int(found["number"]) * _UNITS[found["unit"].upper()]
        if not self._least <= size <= self._most:
            least, most = (f"{limit // 1024**2:,}M" for limit in (self._least, self._most))
            self.fail(f"{value} is not in the range from {least} to {most}.", param, ctx)
        return size


MEMORY = Size(LEAST_MEMORY, 2**44)
JOBS = Whole(1, MOST_JOBS)
PROCESSES = Whole(1, MOST_PROCESSES)
CONCURRENCY = Whole(1, MOST_CONCURRENCY)
CONNECTIONS = Whole(1, MOST_CONNECTIONS)
PORT = Whole(0, 65_535)
JOB_ID = Whole(1, LARGEST_ID)
PRIORITY = Whole(SMALLINT_MIN, SMALLINT_MAX)
ATTEMPTS = Whole(0, SMALLINT_MAX)
MAX_ATTEMPTS = Whole(1, SMALLINT_MAX)
