"""Text from the database as text: nothing in it may move the cursor, change colours or reorder a line."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and newline
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line separators, and marks that reorder text
    r"\ud800-\udfff\ufeff]"
)
_UNSAFE_IN_LINE = re.compile(f"[\\t\\n]|{_UNSAFE.pattern}")


def clean_lines(text: str) -> str:
    """`text` with control characters spelled out; its lines and tabs stay."""
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def clean_line(text: str) -> str:
    """`text` on one line, with control characters spelled out."""
    return _UNSAFE_IN_LINE.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
