"""What a child answers."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec

from ferryman.discreet import Discreet
from ferryman.worker.children.carrying import pack_exception, unpack_exception

if TYPE_CHECKING:
    from collections.abc import Mapping


class ChildSuccess(msgspec.Struct, frozen=True):
    """The task returned."""

    value: Any


class ChildFailure(Discreet, frozen=True, kw_only=True):
    """The task raised, or could not be run.

    error_type: the qualified name of the exception's class; built-in ones have no module
    message: the text of the exception
    traceback_text: as Python prints it, from the first frame that is the user's
    pickled: the exception itself, if it can be carried over
    """

    error_type: str
    message: str
    traceback_text: str
    pickled: bytes | None = None

    def __repr__(self) -> str:
        return f"ChildFailure({self.error_type}: {self.message!r})"

    @classmethod
    def of(cls, error: BaseException, message: str | None = None) -> Self:
        """Describe an exception; `message` takes the place of its text."""
        return cls(
            error_type=_name(type(error)),
            message=_text(error) if message is None else message,
            traceback_text="".join(traceback.format_exception(error)),
            pickled=pack_exception(error),
        )

    @property
    def exception(self) -> BaseException | None:
        """The exception, made anew at each call and without traceback; None if it could not be carried over."""
        return None if self.pickled is None else unpack_exception(self.pickled)


ChildResult: TypeAlias = ChildSuccess | ChildFailure


class ChildProgress(msgspec.Struct, frozen=True):
    """How far the task is."""

    fraction: float
    message: str | None


class ChildUsedLease(msgspec.Struct, frozen=True):
    """The task has completed its job in a transaction of its own."""


class ChildLog(msgspec.Struct, frozen=True):
    """The task, or something that it uses, has logged.

    fields: those of a `logging.LogRecord`, as plain values
    """

    fields: Mapping[str, Any]


class ChildAsksKeys(msgspec.Struct, frozen=True):
    """The task wants to complete its job, and needs to know the claim as it is by now. It waits for the answer."""


ChildNote: TypeAlias = ChildProgress | ChildUsedLease | ChildLog | ChildAsksKeys
"""What a child tells while its task runs."""


def encode_result(result: ChildResult, what: object) -> bytes:
    """The result as a message; a failure if the value cannot leave the process."""
    try:
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - classes may do anything while they are pickled
        return pickle.dumps(_unusable(f"{what} returned a value that cannot leave its process", error))


def decode_result(message: bytes | bytearray, what: object) -> ChildResult | ChildNote:
    """Read what `encode_result` wrote, or a note; a failure if the value cannot be rebuilt here."""
    try:
        result: ChildResult | ChildNote = pickle.loads(message)  # noqa: S301 - from a process that we started
    except Exception as error:  # noqa: BLE001 - classes may do anything while they are unpickled
        return _unusable(f"{what} returned a value that cannot be read outside its process", error)
    return result


def _unusable(fact: str, error: Exception) -> ChildFailure:
    described = f"{fact}: {_text(error)}. Return what JSON can hold, or nothing."
    return ChildFailure(error_type="TypeError", message=described, traceback_text=f"TypeError: {described}\n")


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide that the task failed
        return f"<the text of {type(error).__qualname__} cannot be made>"
