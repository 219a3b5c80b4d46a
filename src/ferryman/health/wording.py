"""Formats numbers, times and names for sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_NAMED = 5
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 job, 2 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def span(seconds: float) -> str:
    """Return a span of time in its two greatest units: 2 d 3 h, 5 min, 12 s."""
    rest, parts = max(0, int(seconds)), []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def amount(number: int) -> str:
    """Return a number of bytes for people, such as 8 kB or 6.5 MB."""
    for unit, size in _SIZES:
        if number >= size:
            return f"{number / size:.{1 if number < 10 * size else 0}f} {unit}".replace(".0 ", " ")
    return f"{number} B"


def percent(part: float) -> str:
    """Return a fraction of 1 in percent, such as 51 %, or "less than 1 %"."""
    return f"{part * 100:.0f} %" if part >= 0.01 or part == 0 else "less than 1 %"  # noqa: PLR2004 - one in a hundred


def listed(names: Iterable[object], number: int | None = None) -> str:
    """Return the first few names, and how many more there are."""
    given = [str(name) for name in names]
    shown = given[:MOST_NAMED]
    more = (len(given) if number is None else number) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
