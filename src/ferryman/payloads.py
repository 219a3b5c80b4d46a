"""Payloads as JSON text: exactly what was given, or a clear refusal."""

from __future__ import annotations

import math
import sys
from typing import Any

import msgspec

from ferryman.errors import InvalidJobError, InvalidPayloadError
from ferryman.jobs import check_storable

MAX_DEPTH = 256
"""Levels of nesting. Far beyond what people write, well within every parser that may read the payload."""

DEFAULT_MAX_BYTES = 1024 * 1024

_encoder = msgspec.json.Encoder()


def encode_payload(value: object) -> str:
    """The JSON text of `value`, or `InvalidPayloadError` that names the place that cannot be stored.

    Values that JSON lacks but that have one obvious form are converted: dataclasses, msgspec structs, pydantic
    models, dates, UUIDs, decimals, enums.
    """
    if not _is_plain_json(value, 0):
        value = _converted(value)
        _refuse_unstorable(value, "payload", 0)
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        _refuse_unstorable(value, "payload", 0)
        raise


def check_size(identifier: str, payload_json: str, limit: int) -> None:
    """Refuse a payload larger than `limit` bytes."""
    size = len(payload_json) if payload_json.isascii() else len(payload_json.encode())
    if size > limit:
        raise InvalidPayloadError(
            f"the payload of {identifier!r} has {size:,} bytes, and the limit is {limit:,}; nothing was added. "
            f"Store large data elsewhere and pass a reference, or raise max_payload_bytes."
        )


def to_plain(value: object) -> Any:
    """`value` as JSON-compatible Python values, with dictionary keys turned into strings."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=encode_foreign)


def encode_foreign(value: object) -> object:
    """Turn what msgspec does not know into what it knows: pydantic models."""
    if is_pydantic_model(type(value)):
        return value.model_dump(mode="json")  # type: ignore[attr-defined]
    raise NotImplementedError


def decode_foreign(wanted: type, value: object) -> object:
    """Turn plain values into what msgspec does not know: pydantic models."""
    if is_pydantic_model(wanted):
        return wanted.model_validate(value)  # type: ignore[attr-defined]
    raise NotImplementedError


def is_pydantic_model(candidate: object) -> bool:
    """Whether `candidate` is a pydantic model class. Never imports pydantic: without it there are none."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(candidate, type) and issubclass(candidate, pydantic.BaseModel)


def _is_plain_json(value: Any, depth: int) -> bool:
    """Whether `value` can be sent as it stands, half surrogates aside.

    Runs for every payload, so it only answers yes or no; `_refuse_unstorable` finds the place again.
    """
    kind = type(value)
    if kind is str:
        return "\0" not in value
    if kind is dict:
        return depth < MAX_DEPTH and all(
            type(key) is str and "\0" not in key and _is_plain_json(item, depth + 1)
            for key, item in value.items()
        )
    if kind is list or kind is tuple:
        return depth < MAX_DEPTH and all(_is_plain_json(item, depth + 1) for item in value)
    if kind is float:
        return math.isfinite(value)
    return kind is int or kind is bool or value is None


def _converted(value: object) -> Any:
    try:
        return msgspec.to_builtins(value, enc_hook=encode_foreign)
    except RecursionError:
        raise InvalidPayloadError(_too_deep()) from None
    except (NotImplementedError, TypeError, ValueError) as error:
        raise InvalidPayloadError(
            f"the payload cannot be written as JSON: {error or 'unknown type'}; nothing was added"
        ) from None


def _refuse_unstorable(value: Any, place: str, depth: int) -> None:
    """Raise for the first part of `value` that PostgreSQL's json type cannot hold, naming where it is."""
    if depth > MAX_DEPTH:
        raise InvalidPayloadError(_too_deep())
    match value:
        case str():
            _refuse_text(value, place)
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InvalidPayloadError(
                        f"{place} has the key {key!r}, and JSON keys are strings; nothing was added"
                    )
                _refuse_text(key, f"a key of {place}")
                _refuse_unstorable(item, f"{place}.{key}", depth + 1)
        case list() | tuple():
            for index, item in enumerate(value):
                _refuse_unstorable(item, f"{place}[{index}]", depth + 1)
        case float() if not math.isfinite(value):
            raise InvalidPayloadError(f"{place} is {value}, which JSON cannot hold; nothing was added")


def _refuse_text(text: str, place: str) -> None:
    try:
        check_storable(place, text)
    except InvalidJobError as error:
        raise InvalidPayloadError(f"{error}; nothing was added") from None


def _too_deep() -> str:
    return f"the payload is nested deeper than {MAX_DEPTH} levels; nothing was added"
