"""The messages that a child sends to its worker: results and notes, as JSON.

A child that was broken into can send anything. So the worker reads only plain values of known types, and at most
`ChildOrder.largest_answer` bytes of them: it never runs code that comes from a child.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from typing import Any, Self, TypeAlias

import msgspec

from ferryman.discreet import Discreet
from ferryman.payloads import encode_foreign
from ferryman.worker.settling.outcomes import Failed, Snoozed, describe, storable_error

MAX_RESULT_BYTES = 16 * 1024 * 1024
"""The largest value that can leave a child, as JSON. A larger payload can come back too."""
MAX_NOTE_BYTES = 1024 * 1024
"""The largest log record."""
_NULL = msgspec.Raw(b"null")


class UnreadableError(Exception):
    """A child sent a message that its worker does not read."""


class ChildSuccess(Discreet, frozen=True, tag_field="type", tag="success"):
    """The task returned.

    value_json: what the task returned; decoded only when `value` is read
    """

    value_json: msgspec.Raw

    def __repr__(self) -> str:
        return f"ChildSuccess(value={self.value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChildSuccess) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the result with this value. Raises `TypeError` or a similar error when JSON cannot hold the value."""
        return cls(msgspec.Raw(msgspec.json.encode(value, enc_hook=encode_foreign)))

    @property
    def value(self) -> Any:
        """The return value of the task, as plain values."""
        return msgspec.json.decode(self.value_json)


class ChildDecision(Discreet, frozen=True, kw_only=True, tag_field="type", tag="decision"):
    """The task decided what happens to its job: by `Fail`, `Retry` or `Snooze`, or as a batch task about its items.

    error: the text for `last_error`; None for a snooze, which is not a failure
    delay: seconds until the job runs again; None for the usual delay
    is_final: True if the job failed for good
    payload: the payload of the next attempt; null leaves it as it is
    """

    error: str | None
    delay: float | None = None
    is_final: bool = False
    payload: msgspec.Raw = _NULL

    @classmethod
    def of(cls, ending: Failed | Snoozed) -> Self:
        """Return the decision that leads to this ending."""
        if isinstance(ending, Snoozed):
            return cls(error=None, delay=ending.delay)
        payload = _NULL if ending.payload_json is None else msgspec.Raw(ending.payload_json)
        return cls(error=ending.error, delay=ending.delay, is_final=ending.is_final, payload=payload)

    @property
    def ending(self) -> Failed | Snoozed:
        """How the attempt ended."""
        if self.error is None:
            return Snoozed(self.delay or 0.0)
        payload_json = bytes(self.payload).decode()
        kept = payload_json == "null"
        return Failed(storable_error(self.error), self.delay, self.is_final, None if kept else payload_json)


class ChildFailure(Discreet, frozen=True, kw_only=True, tag_field="type", tag="failure"):
    """The task raised, or could not be run.

    error_type: the qualified name of the exception's class; without a module for built-in ones
    message: the text of the exception
    traceback_text: the traceback as Python prints it, from the first frame of the user's code on
    delay: seconds before the next attempt, by the task's retry policy; None for the usual delay
    """

    error_type: str
    message: str
    traceback_text: str
    delay: float | None = None

    def __repr__(self) -> str:
        return f"ChildFailure({self.error_type}: {self.message!r})"

    @classmethod
    def of(cls, error: BaseException, message: str | None = None, delay: float | None = None) -> Self:
        """Describe an exception. `message` replaces its text."""
        return cls(
            error_type=_name(type(error)),
            message=storable_error(_text(error) if message is None else message),
            traceback_text=storable_error("".join(_trace(error))),
            delay=delay,
        )

    @classmethod
    def saying(cls, message: str) -> Self:
        """Return a failure that is not an exception of the task."""
        return cls(error_type="TypeError", message=message, traceback_text=f"TypeError: {message}\n")


ChildResult: TypeAlias = ChildSuccess | ChildDecision | ChildFailure
"""How an order ended: the last message about it."""


class ChildProgress(msgspec.Struct, frozen=True, tag_field="type", tag="progress"):
    """The task set its progress."""

    fraction: float
    message: str | None


class ChildUsedLease(msgspec.Struct, frozen=True, tag_field="type", tag="used_lease"):
    """The task completed its job in its own transaction."""


class ChildLog(msgspec.Struct, frozen=True, tag_field="type", tag="log"):
    """The task, or a library that it uses, wrote a log record.

    fields: the attributes of the `logging.LogRecord`, as plain values
    """

    fields: Mapping[str, str | int | float | bool | None]


class ChildAsksKeys(msgspec.Struct, frozen=True, tag_field="type", tag="asks_keys"):
    """The task is about to complete its job, and asks for the current keys of its claim. It waits for the answer."""


ChildNote: TypeAlias = ChildProgress | ChildUsedLease | ChildLog | ChildAsksKeys
"""A message that a child sends before the result."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(
    ChildSuccess | ChildDecision | ChildFailure | ChildProgress | ChildUsedLease | ChildLog | ChildAsksKeys
)


def encode_result(result: ChildResult, what: object, limit: int) -> bytes:
    """Encode a result. A value or payload of more than `limit` bytes is left out, and the message says so."""
    match result:
        case ChildSuccess(value_json=value) if (size := len(bytes(value))) > limit:
            refusal = f"{what} returned a value of {size:,} bytes, and at most {limit:,} can leave its process"
            result = ChildFailure.saying(f"{refusal}. Store the value elsewhere, and return its location.")
        case ChildDecision(payload=payload) if (size := len(bytes(payload))) > limit:
            note = f"its payload of {size:,} bytes was not stored: at most {limit:,} can leave a child"
            result = msgspec.structs.replace(result, error=f"{result.error} ({note})", payload=_NULL)
    return _encoder.encode(result)


def encode_note(note: ChildNote) -> bytes:
    """Encode a note. Text that UTF-8 cannot hold is escaped, and a log record that is too large is shortened."""
    try:
        message = _encoder.encode(note)
    except UnicodeEncodeError:
        message = _encoder.encode(_readable(note))
    if len(message) > MAX_NOTE_BYTES and isinstance(note, ChildLog):
        message = _encoder.encode(_readable(note))
    return message


def decode_message(message: bytes | bytearray, what: object) -> ChildResult | ChildNote:
    """Decode what `encode_result` or `encode_note` wrote. Raises `UnreadableError` for anything else.

    what: names the order in the error
    """
    try:
        decoded: ChildResult | ChildNote = _decoder.decode(message)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise UnreadableError(f"{what} sent its worker a message that cannot be read: {error}") from None
    return decoded


def _readable(note: ChildNote) -> ChildNote:
    match note:
        case ChildLog(fields=fields):
            return ChildLog({name: _storable(value) for name, value in fields.items()})
        case ChildProgress(message=message) if message is not None:
            return ChildProgress(note.fraction, storable_error(message))
    return note


def _storable(value: str | float | None) -> str | float | None:
    return storable_error(value) if isinstance(value, str) else value


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide that the task failed
        return f"<the text of {type(error).__qualname__} cannot be made>"


def _trace(error: BaseException) -> list[str]:
    try:
        return traceback.format_exception(error)
    except Exception:  # noqa: BLE001 - an exception that cannot be printed is still a failure
        return [describe(error)]
