"""Formats the verdict for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.kill.checker import story

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.history import Line

    from benchmarks.kill.checker import Verdict

MOST_STORIES = 5
MOST_BREACHES = 20
MOST_COMPLAINTS = 5


def render(verdict: Verdict) -> str:
    """Return the verdict as a table."""
    rows: list[tuple[str, object]] = [
        *verdict.counts.items(),
        ("runs beyond the first, without those after an error", sum(verdict.duplicates.values())),
        *((f"    {cause}", count) for cause, count in verdict.duplicates.most_common()),
        *_notice_rows(verdict.seconds_to_notice),
        ("breaches", len(verdict.breaches)),
        *((f"    {rule}", len(found)) for rule, found in verdict.by_rule.items()),
    ]
    width = max(len(label) for label, _ in rows)
    shown = [f"{label:<{width}}  {_shown(value):>10}" for label, value in rows]
    conclusion = "NOTHING WENT WRONG" if not verdict.breaches else "SOMETHING WENT WRONG"
    complaints = [f"logged: {text}" for text in verdict.complaints[:MOST_COMPLAINTS]]
    return "\n".join([verdict.title, f"{verdict.seconds:,.0f} seconds", "", *shown, "", *complaints, conclusion, ""])


def _notice_rows(seconds: Sequence[float]) -> list[tuple[str, object]]:
    if not seconds:
        return []
    return [
        (f"seconds from kill to sweep, {word}", f"{seconds[min(len(seconds) - 1, int(len(seconds) * part))]:.2f}")
        for word, part in (("median", 0.5), ("99 %", 0.99), ("longest", 1.0))
    ]


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_stories(verdict: Verdict, lines: Sequence[Line]) -> None:
    """Print what went wrong, and all that the history has about each job concerned."""
    for breach in verdict.breaches[:MOST_BREACHES]:
        print(f"BREACH: {breach.text}")
    numbers = dict.fromkeys(breach.number for breach in verdict.breaches if breach.number is not None)
    for number in [*numbers][:MOST_STORIES]:
        print(f"\nThe story of job number {number}:")
        print("\n".join(story(lines, number)))
