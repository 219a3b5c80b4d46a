"""Reads JSON5: JSON as people write it, with comments, bare keys, single quotes and trailing commas.

Accepts only what JSON can store: Infinity and NaN are rejected. The messages are those of the library that Node uses.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any

_SPACES = frozenset("\t\v\f \u00a0\ufeff\n\r\u2028\u2029")
_LINE_ENDS = frozenset("\n\r\u2028\u2029")
_DIGITS = frozenset("0123456789")
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORDS = {"n": ("null", None), "t": ("true", True), "f": ("false", False)}
_SHOWN = {"'": "\\'", '"': '\\"', "\\": "\\\\", "\0": "\\0", "\u2028": "\\u2028", "\u2029": "\\u2029"} | {
    character: f"\\{name}" for name, character in _ESCAPES.items()
}
_SAFE_INTEGER = 2**53


class JSON5Error(ValueError):
    """The text is not JSON5, or holds a number that JSON cannot store."""


def read_json5(text: str) -> Any:
    """Read the value of the text."""
    try:
        return _Reader(text).document()
    except RecursionError:
        raise JSON5Error("JSON5: nested too deeply") from None


class _Reader:
    """A text, and how far it has been read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def document(self) -> Any:
        self._skip()
        value = self._value()
        self._skip()
        if self._next is not None:
            raise self._unexpected()
        return value

    @property
    def _next(self) -> str | None:
        return self._text[self._place] if self._place < len(self._text) else None

    def _take(self) -> str:
        character = self._next
        if character is None:
            raise self._unexpected()
        self._place += 1
        return character

    def _take_if(self, wanted: str | frozenset[str]) -> str | None:
        character = self._next
        return self._take() if character is not None and character in wanted else None

    def _demand(self, wanted: str | frozenset[str]) -> str:
        taken = self._take_if(wanted)
        if taken is None:
            raise self._unexpected()
        return taken

    def _unexpected(self, problem: str | None = None) -> JSON5Error:
        before, character = self._text[: self._place], self._next
        line = before.count("\n") + 1
        # Columns are counted as JavaScript counts: in halves of surrogate pairs.
        column = len(before.rpartition("\n")[2].encode("utf-16-le", "surrogatepass")) // 2
        column += len((character or " ").encode("utf-16-le", "surrogatepass")) // 2
        if problem is None:
            problem = "invalid end of input" if character is None else f"invalid character '{_shown(character)}'"
        return JSON5Error(f"JSON5: {problem} at {line}:{column}")

    def _skip(self) -> None:
        """Skip spaces and comments."""
        while (character := self._next) is not None:
            if character in _SPACES or unicodedata.category(character) == "Zs":
                self._place += 1
            elif character == "/":
                self._place += 1
                self._skip_comment()
            else:
                return

    def _skip_comment(self) -> None:
        if self._demand("*/") == "/":
            while self._next is not None and self._next not in _LINE_ENDS:
                self._place += 1
            return
        end = self._text.find("*/", self._place)
        self._place = len(self._text) if end < 0 else end + 2
        if end < 0:
            raise self._unexpected()

    def _value(self) -> Any:
        match self._next:
            case "{":
                return self._object()
            case "[":
                return self._array()
            case '"' | "'":
                return self._string()
            case "n" | "t" | "f" as letter:
                word, value = _WORDS[letter]
                self._word(word)
                return value
            case _:
                return self._number()

    def _object(self) -> dict[str, Any]:
        self._demand("{")
        found: dict[str, Any] = {}
        self._skip()
        while not self._take_if("}"):
            key = self._string() if self._next in {'"', "'"} else self._bare_key()
            self._skip()
            self._demand(":")
            self._skip()
            found[key] = self._value()
            self._end_item("}")
        return found

    def _array(self) -> list[Any]:
        self._demand("[")
        found: list[Any] = []
        self._skip()
        while not self._take_if("]"):
            found.append(self._value())
            self._end_item("]")
        return found

    def _end_item(self, closing: str) -> None:
        """Skip to behind the comma, or to the end of the object or array."""
        self._skip()
        if self._next != closing:
            self._demand(",")
            self._skip()

    def _bare_key(self) -> str:
        key = ""
        while True:
            start = self._place
            character = self._next
            escaped = character == "\\"
            if escaped:
                self._take()
                self._demand("u")
                character = self._code(4)
            if character is None or not _is_in_name(character, first=not key):
                if escaped:
                    self._place = start
                    raise self._unexpected("invalid identifier character")
                if not key:
                    raise self._unexpected()
                return key
            if not escaped:
                self._take()
            key += character

    def _string(self) -> str:
        quote = self._demand("\"'")
        found = ""
        while (character := self._next) != quote:
            if character is None or character in "\n\r":
                raise self._unexpected()
            self._place += 1
            found += self._escape() if character == "\\" else character
        self._place += 1
        # Two escapes may be the halves of one character.
        return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")

    def _escape(self) -> str:
        if self._next is None or self._next in "123456789":
            raise self._unexpected()
        match self._take():
            case "x":
                return self._code(2)
            case "u":
                return self._code(4)
            case "0":
                if self._next is not None and self._next in _DIGITS:
                    raise self._unexpected()
                return "\0"
            case "\r":
                self._take_if("\n")
                return ""
            case "\n" | "\u2028" | "\u2029":
                return ""
            case other:
                return _ESCAPES.get(other, other)

    def _code(self, digits: int) -> str:
        return chr(int("".join(self._demand(_HEX_DIGITS) for _ in range(digits)), 16))

    def _word(self, word: str) -> None:
        for letter in word:
            self._demand(letter)

    def _number(self) -> int | float:
        sign = -1 if self._take_if("+-") == "-" else 1
        for word in ("Infinity", "NaN"):
            if self._next == word[0]:
                self._word(word)
                raise JSON5Error(f"JSON5: {word} cannot be stored as JSON")
        start = self._place
        if self._take_if("0"):
            if self._take_if("xX"):
                return sign * self._hexadecimal()
        elif self._next != ".":
            self._digits()
        whole = self._text[start : self._place]
        is_whole = not self._fraction(is_needed=not whole) and not self._exponent()
        if is_whole:
            return sign * _integer(whole)
        return sign * _float(self._text[start : self._place])

    def _hexadecimal(self) -> int:
        start = self._place
        self._demand(_HEX_DIGITS)
        while self._take_if(_HEX_DIGITS):
            pass
        return int(self._text[start : self._place], 16)

    def _digits(self) -> None:
        self._demand(_DIGITS)
        while self._take_if(_DIGITS):
            pass

    def _fraction(self, *, is_needed: bool) -> bool:
        """Read a decimal point and the digits behind it. Returns True if there is a point."""
        if not self._take_if("."):
            return False
        if is_needed or self._next in _DIGITS:
            self._digits()
        self._exponent()
        return True

    def _exponent(self) -> bool:
        if not self._take_if("eE"):
            return False
        self._take_if("+-")
        self._digits()
        return True


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise JSON5Error("JSON5: a number has too many digits") from None


def _float(text: str) -> int | float:
    """Turn a number into an int if JavaScript would write it as a whole number."""
    value = float(text)
    if not math.isfinite(value):
        raise JSON5Error(f"JSON5: {text[:40]} is too large to be stored as JSON")
    return int(value) if value.is_integer() and abs(value) < _SAFE_INTEGER else value


def _is_in_name(character: str, *, first: bool) -> bool:
    if character in "$_" or (not first and character in "\u200c\u200d"):
        return True
    return character.isidentifier() if first else f"a{character}".isidentifier()


def _shown(character: str) -> str:
    if character in _SHOWN:
        return _SHOWN[character]
    return f"\\x{ord(character):02x}" if character < " " else character
