"""Carries exceptions from one process to another, as far as they can be carried."""

from __future__ import annotations

import pickle
from typing import Any

MAX_BYTES = 64 * 1024
"""An exception that holds more than that is described, not carried over."""


def pack_exception(error: BaseException) -> bytes | None:
    """The exception as bytes, or None when it would not come back as what it was."""
    for form in (error, _Bare(error)):
        message = _packed_as(form, error)
        if message is not None:
            return message
    return None


def unpack_exception(message: bytes) -> BaseException | None:
    """The exception, without its traceback; None when it cannot be made in this process."""
    try:
        error = pickle.loads(message)  # noqa: S301 - from a process that we started
    except Exception:  # noqa: BLE001 - classes may do anything while they are unpickled
        return None
    return error if isinstance(error, BaseException) else None


class _Bare:
    """An exception as its class and its values.

    Pickle makes an exception by calling its class with `args`. A class whose `__init__` takes anything else, such as a
    delay, fails there or says something else afterwards.
    """

    def __init__(self, error: BaseException) -> None:
        self._values = (type(error), error.args, vars(error))

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, self._values


def _made(kind: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(attributes)
    return error


def _packed_as(form: object, error: BaseException) -> bytes | None:
    try:
        message = pickle.dumps(form, pickle.HIGHEST_PROTOCOL)
        copy = unpack_exception(message) if len(message) <= MAX_BYTES else None
        is_faithful = type(copy) is type(error) and str(copy) == str(error)
    except Exception:  # noqa: BLE001 - classes may do anything while they are pickled
        return None
    return message if is_faithful else None
