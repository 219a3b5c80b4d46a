"""What the forms of a payload have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class ArgumentsError(Exception):
    """A job was described with arguments that its task does not have."""


class Arguments(msgspec.Struct, frozen=True):
    """What to call a task's function with."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}


class PayloadForm(Protocol):
    """How arguments become a payload, and a payload becomes arguments."""

    @property
    def noun(self) -> str:
        """What somebody who adds a job calls a field of the payload."""

    def gather(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value to store, from arguments as in a call; `ArgumentsError` when they do not fit."""

    def read(self, payload_json: str) -> Any:
        """The value as it was gathered; `MismatchError` when the payload is not one of this task."""

    def check(self, payload_json: str) -> None:
        """`MismatchError` when the payload that was made of gathered values cannot be read back."""

    def arguments(self, value: Any) -> Arguments:
        """The arguments that a value stands for."""


def is_null(payload_json: str) -> bool:
    """Whether the payload is JSON's null, which a crontab of the Rust worker writes when it has no payload."""
    return payload_json.strip() == "null"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to append to a message about an unknown name, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    guess = get_close_matches(name, known, n=1)
    return f" (did you mean {guess[0]!r}?)" if guess else ""
