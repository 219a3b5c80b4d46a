"""Figures as people read them."""

from __future__ import annotations


def milliseconds(number: float) -> str:
    """Three digits are more than a measurement of this kind is worth."""
    if number < 1:
        return f"{number:.2f} ms"
    return f"{number:.1f} ms" if number < 100 else f"{number:,.0f} ms"  # noqa: PLR2004 - three digits


def per_second(rate: float) -> str:
    """A rate of jobs."""
    return f"{rate:,.0f} jobs/s" if rate >= 10 else f"{rate:.1f} jobs/s"  # noqa: PLR2004 - two digits


def cores(share: float) -> str:
    """A share of one processor."""
    return f"{share * 100:.0f} % of a processor"


def times(factor: float) -> str:
    """How many times as much."""
    return f"{factor:.1f} times"
