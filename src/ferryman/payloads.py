"""Encodes payloads as JSON text without loss, or refuses them and names the place.

Decoding is in `Task.decode` (`ferryman.tasks.task`), because it follows the annotations of the task.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import msgspec

from ferryman.errors import InvalidJobError, InvalidPayloadError
from ferryman.jobs import check_storable

MAX_DEPTH = 256
"""Levels of nesting: more than people write, and within the limit of every parser that may read the payload."""

MAX_INTEGER_BITS = 14_284
"""4,300 digits: Python itself refuses to read longer numbers."""

_MASKED_SECRET = "'**********'"  # noqa: S105 - what pydantic writes in place of a SecretStr

_TEXT = frozenset({str})
_SURELY_PLAIN = frozenset({str, int, bool, type(None)})
_SUBCLASSED: dict[type, Callable[[Any], object]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    decimal.Decimal: decimal.Decimal.__str__,
    dt.date: lambda value: value.isoformat(),
    dt.time: lambda value: value.isoformat(),
    dt.timedelta: lambda value: dt.timedelta(value.days, value.seconds, value.microseconds),
}
"""Types whose subclasses msgspec does not know, such as the dates of pandas and freezegun."""

_encoder = msgspec.json.Encoder()


def encode_payload(value: object) -> str:
    """Encode `value` as JSON text; `InvalidPayloadError` names a place that cannot be stored.

    Values that JSON lacks but that have one obvious form are converted: dataclasses, msgspec structs, attrs classes,
    pydantic models, dates, times, UUIDs, decimals, enums. Tuples become arrays. Sets, bytes and keys that are not
    strings are refused, because they would come back as something else.
    """
    try:
        quick = _encoded_as_it_stands(value)
        return _encoder.encode(_plain(value, "payload", 0)).decode() if quick is None else quick
    except RecursionError:
        raise InvalidPayloadError(_too_deep("payload")) from None


def to_plain(value: object) -> Any:
    """Convert `value` to plain JSON values, even where a type is lost."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=encode_foreign)


def check_size(identifier: str, payload_json: str, limit: int) -> None:
    """Raise `InvalidPayloadError` if the payload has more than `limit` bytes."""
    size = len(payload_json) if payload_json.isascii() else len(payload_json.encode())
    if size > limit:
        raise InvalidPayloadError(
            f"the payload of {identifier!r} has {size:,} bytes, and the limit is {limit:,}; nothing was added. "
            f"Store large data elsewhere and pass a reference, or raise max_payload_bytes."
        )


def encode_foreign(value: object) -> object:
    """Convert values that msgspec does not know: pydantic models, and subclasses of plain types."""
    if is_pydantic_model(type(value)):
        return _dumped(value)
    for kind, as_known in _SUBCLASSED.items():
        if isinstance(value, kind):
            return as_known(value)
    raise NotImplementedError(f"a value is {_described(value)}")


def is_pydantic_model(candidate: object) -> bool:
    """True if `candidate` is a pydantic model class. Never imports pydantic: without it there are none."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(candidate, type) and issubclass(candidate, pydantic.BaseModel)


def _dumped(model: Any) -> object:
    plain: object = model.model_dump(mode="json", by_alias=True)
    if _MASKED_SECRET in repr(plain):
        raise ValueError("a secret field would be stored as asterisks. Pass a reference to the secret instead")
    return plain


def _encoded_as_it_stands(value: object) -> str | None:
    """Return the JSON text of `value` if all of it can be encoded as it is, else None."""
    if not _is_plain(value, 0):
        return None
    try:
        text = _encoder.encode(value).decode()
    except ValueError:  # half of a surrogate pair, or a number with too many digits
        return None
    return None if "\\u0000" in text else text


def _is_plain(value: Any, depth: int) -> bool:
    """True if `value` can be encoded as it is; unstorable text shows only in the result.

    Runs for every payload, so it only answers yes or no; `_plain` finds the place again.
    """
    kind = type(value)
    if kind is dict:
        return depth < MAX_DEPTH and _TEXT.issuperset(map(type, value)) and _are_plain(value.values(), depth + 1)
    if kind is list or kind is tuple:
        return depth < MAX_DEPTH and _are_plain(value, depth + 1)
    if kind is float:
        return math.isfinite(value)
    return kind is str or kind is int or kind is bool or value is None


def _are_plain(values: Iterable[Any], depth: int) -> bool:
    for value in values:  # noqa: SIM110 - a generator for all() would take longer than the loop
        if type(value) not in _SURELY_PLAIN and not _is_plain(value, depth):
            return False
    return True


def _plain(value: Any, place: str, depth: int) -> Any:
    """Convert `value` to JSON-compatible values; `InvalidPayloadError` names a place that cannot be."""
    if isinstance(value, Enum):
        return _plain(value.value, place, depth)
    if _has_fields(value):
        return _plain(_without_fields(value, place), place, depth)
    if not isinstance(value, (Mapping, list, tuple)):
        return _plain_leaf(value, place)
    if depth >= MAX_DEPTH:
        raise InvalidPayloadError(_too_deep(place))
    if isinstance(value, Mapping):
        return _plain_object(value, place, depth)
    return [_plain(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]


def _plain_object(value: Mapping[Any, Any], place: str, depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        name = _key(key, place)
        if name in plain:
            raise InvalidPayloadError(f"{place} has the key {name!r} twice; nothing was added")
        inner = f"{place}.{name}" if name.isidentifier() else f"{place}[{name!r}]"
        plain[name] = _plain(item, inner, depth + 1)
    return plain


def _plain_leaf(value: object, place: str) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, place)
        case int() if value.bit_length() <= MAX_INTEGER_BITS:
            return int.__int__(value)
        case float() if math.isfinite(value):
            return float.__float__(value)
        case dt.date() | dt.time() | dt.timedelta() | uuid.UUID() | decimal.Decimal():
            return to_plain(value)
    raise InvalidPayloadError(f"{place} is {_described(value)}; nothing was added")


def _described(value: object) -> str:
    match value:
        case int():
            return "a whole number with more than 4,300 digits, which few programs can read"
        case float():
            return f"{value}, which JSON cannot hold"
        case bytes() | bytearray() | memoryview():
            return "bytes, which JSON cannot hold. Encode them as text (base64), or store them elsewhere"
        case set() | frozenset():
            return "a set, which JSON cannot hold. Pass a list"
    return f"of type {type(value).__qualname__}, which has no form in JSON"


def _key(key: object, place: str) -> str:
    if isinstance(key, Enum):
        return _key(key.value, place)
    if not isinstance(key, str):
        raise InvalidPayloadError(f"{place} has the key {key!r}, and JSON keys are strings; nothing was added")
    return _text(key, f"a key of {place}")


def _text(text: str, place: str) -> str:
    try:
        check_storable(place, text)
    except InvalidJobError as error:
        raise InvalidPayloadError(f"{error}; nothing was added") from None
    return str.__str__(text)


def _has_fields(value: object) -> bool:
    kind = type(value)
    return (
        is_dataclass(kind)
        or isinstance(value, msgspec.Struct)
        or hasattr(kind, "__attrs_attrs__")
        or is_pydantic_model(kind)
    )


def _without_fields(value: object, place: str) -> Any:
    try:
        return to_plain(value)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InvalidPayloadError(f"{place} cannot be written as JSON: {error}; nothing was added") from None


def _too_deep(place: str) -> str:
    return f"{place} is nested deeper than {MAX_DEPTH} levels, or contains itself; nothing was added"
