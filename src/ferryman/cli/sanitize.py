"""Makes text of any origin safe to show: spells out control characters, hides passwords."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and newline
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line separators, and marks that reorder text
    r"\ud800-\udfff\ufeff]"
)
_UNSAFE_IN_LINE = re.compile(f"[\\t\\n]|{_UNSAFE.pattern}")

PLACEHOLDER = "<password>"
"""Stands for a password in an example, and is not hidden."""

_PASSWORD = re.compile(r"(password\s*=\s*)(?:'(?:[^'\\\n]|\\+.)*'?|\S+)", re.IGNORECASE)
_WORD = re.compile(r"\S+")
_USER = re.compile(
    r"postgres(?:ql)?://[^\s:/?#@\[]*:"
    r"|://[^\s:/?#@\[]*:(?![0-9]{1,5}(?:[/?#]|$))",  # a number before a path is a port
    re.IGNORECASE,
)


def clean_lines(text: str) -> str:
    """Return `text` with control characters spelled out, so that it cannot move the cursor, change colours or reorder
    a line. Line breaks and tabs stay.
    """
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def clean_line(text: str) -> str:
    """Return `text` on one line, with control characters spelled out."""
    return _UNSAFE_IN_LINE.sub(_spelled, text)


def without_secrets(text: str) -> str:
    """Hide everything that looks like a password. Takes time in proportion to the length of `text`."""
    if "://" in text and "@" in text:
        text = _WORD.sub(_without_credentials, text)
    return _PASSWORD.sub(r"\1***", text) if "password" in text.lower() else text


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _without_credentials(found: re.Match[str]) -> str:
    """Return a word without what stands between the user of a URL and the last @: a password can hold any character."""
    word: str = found[0]
    end = word.rfind("@")
    user = _USER.search(word)
    if user is None or user.end() > end or word[user.end() : end] == PLACEHOLDER:
        return word
    return f"{word[: user.end()]}***{word[end:]}"
