"""Messages about payloads that do not fit their task; each names the field."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_PLACE = re.compile(r"^(?P<text>.*) - at `(?P<place>.*)`$", re.DOTALL)
_ABOUT_A_FIELD = re.compile(r"^Object (?P<verb>missing required|contains unknown) field `(?P<name>.*)`$")
MAX_NAME_LENGTH = 200

_IN_A_KEY = "key` in `"
_VERBS = {"missing required": "is missing", "contains unknown": "is unknown"}


class MismatchError(ValueError):
    """A payload does not fit its task. `Task` catches this and adds the task and the consequence.

    A `ValueError`, because that is what msgspec lets a hook say about a value that it does not like.

    field: the path of the part that does not fit, such as `image.sizes[2]`; empty for the whole payload
    problem: what is wrong with it, such as `expected str, got int`
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem

    def worded(self, noun: str) -> str:
        """Describe the mismatch in words for an error message. noun: the word for a field"""
        # The name of an unknown field comes from the payload, and may be as long.
        return f"{noun} {shorten(self.field)!r} {self.problem}" if self.field else f"the payload {self.problem}"

    def within(self, name: str) -> MismatchError:
        """Return the same mismatch, with `name` before the path of the field."""
        return MismatchError(_joined(name, self.field), self.problem)


def mismatch_of(error: msgspec.DecodeError) -> MismatchError:
    """Return the mismatch that an error of msgspec reports."""
    if not isinstance(error, msgspec.ValidationError):
        return MismatchError("", f"is not JSON: {error}")
    placed = _PLACE.match(str(error))
    text, place = (placed["text"], placed["place"]) if placed else (str(error), "$")
    field = place.removeprefix(_IN_A_KEY).removeprefix("$").removeprefix(".")
    if isinstance(error.__cause__, MismatchError):
        return error.__cause__.within(field)
    about = _ABOUT_A_FIELD.match(text)
    if about:
        return MismatchError(_joined(field, about["name"]), _VERBS[about["verb"]])
    key = "has a key that " if place.startswith(_IN_A_KEY) else ""
    return MismatchError(field, key + _problem(text))


def mismatch_of_model(error: Any) -> MismatchError:
    """Return the first mismatch that pydantic reports. Its own text is not used, since it quotes the payload."""
    first, *others = error.errors(include_url=False, include_context=False, include_input=False)
    more = f" (and {len(others)} more)" if others else ""
    return MismatchError(_path(first["loc"]), f"is not accepted: {first['msg']}{more}")


def shorten(name: str) -> str:
    """Shorten a name to fit into a message."""
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}…"


def _problem(text: str) -> str:
    if text.startswith("Expected "):
        return "e" + text[1:].replace("`", "")
    return f"is not accepted: {text}"


def _joined(outer: str, inner: str) -> str:
    return f"{outer}{inner}" if not outer or not inner or inner.startswith("[") else f"{outer}.{inner}"


def _path(location: tuple[str | int, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")
