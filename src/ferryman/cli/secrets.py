"""Hides passwords in text of any origin, in time that grows with its length alone."""

from __future__ import annotations

import re

PLACEHOLDER = "<password>"
"""What stands for a password in an example, and is not hidden."""

_PASSWORD = re.compile(r"(password\s*=\s*)(?:'(?:[^'\\\n]|\\+.)*'?|\S+)", re.IGNORECASE)
_WORD = re.compile(r"\S+")
_USER = re.compile(
    r"postgres(?:ql)?://[^\s:/?#@\[]*:"
    r"|://[^\s:/?#@\[]*:(?![0-9]{1,5}(?:[/?#]|$))",  # a number before a path is a port
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Hide what looks like a password, wherever a message may have taken it from."""
    if "://" in text and "@" in text:
        text = _WORD.sub(_without_credentials, text)
    return _PASSWORD.sub(r"\1***", text) if "password" in text.lower() else text


def _without_credentials(found: re.Match[str]) -> str:
    """A word without what stands between the user of an address and the last @: a password may hold any character."""
    word: str = found[0]
    end = word.rfind("@")
    user = _USER.search(word)
    if user is None or user.end() > end or word[user.end() : end] == PLACEHOLDER:
        return word
    return f"{word[: user.end()]}***{word[end:]}"
