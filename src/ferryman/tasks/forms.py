"""The interface of the ways in which arguments become a payload, and a payload becomes arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class ArgumentsError(Exception):
    """A job was described with arguments that do not fit its task."""


class Arguments(msgspec.Struct, frozen=True):
    """The arguments for a call of a task's function."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}


class PayloadForm(Protocol):
    """Converts arguments into a payload, and a payload into arguments."""

    @property
    def noun(self) -> str:
        """The word for a field of the payload in messages to callers of `job`."""

    def gather(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the value to store, from the arguments of a call; `ArgumentsError` if they do not fit."""

    def read(self, payload_json: str) -> Any:
        """Return the value that a payload holds; `MismatchError` if it does not fit this task."""

    def check(self, payload_json: str) -> None:
        """Raise `MismatchError` if a payload that was made of gathered values cannot be read back."""

    def arguments(self, value: Any) -> Arguments:
        """Return the arguments with which to call the function for a value."""


def is_null(payload_json: str) -> bool:
    """True if the payload is JSON's null, which crontabs of the Rust worker write for no payload."""
    return payload_json.strip() == "null"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint for a message about an unknown name, or an empty string."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    guess = get_close_matches(name, known, n=1)
    return f" (did you mean {guess[0]!r}?)" if guess else ""
