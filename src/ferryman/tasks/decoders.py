"""Decodes JSON text into the types of a task's parameters."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect as types

from ferryman.errors import TaskError
from ferryman.payloads import is_pydantic_model
from ferryman.tasks.mismatches import MismatchError, mismatch_of, mismatch_of_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferryman.tasks.parameters import Parameter

_LISTS = (types.ListType, types.SetType, types.FrozenSetType, types.VarTupleType)


def is_list(type_: Any) -> bool:
    """True if values of the type are JSON arrays of any length."""
    return isinstance(type_info(type_), _LISTS)


class Decoder:
    """Decodes JSON text into one type, or raises `MismatchError`."""

    def __init__(self, type_: Any) -> None:
        foreign = next(_undecodable(type_info(type_), set()), None)
        if foreign is not None:
            raise TaskError(f"{foreign} cannot be read from JSON")
        self._decoder = msgspec.json.Decoder(type_, dec_hook=_decode_foreign)

    def decode(self, payload_json: str | bytes) -> Any:
        """Decode one value."""
        try:
            return self._decoder.decode(payload_json)
        except msgspec.DecodeError as error:
            raise mismatch_of(error) from None
        except UnicodeError as error:
            raise MismatchError("", f"is not JSON: {error}") from None
        except RecursionError:
            raise MismatchError("", "is nested too deeply") from None


class ModelDecoder:
    """Decodes JSON text into a pydantic model by the model's own rules, or raises `MismatchError`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        # Never imported here: a program with a model has loaded pydantic.
        self._refusal: type[ValueError] = sys.modules["pydantic"].ValidationError

    def decode(self, payload_json: str | bytes) -> Any:
        """Decode one model."""
        try:
            return self._model.model_validate_json(payload_json)
        except self._refusal as error:
            raise mismatch_of_model(error) from None


def _decode_foreign(wanted: type, value: object) -> object:
    """Convert plain values into types that msgspec does not know."""
    if not is_pydantic_model(wanted):
        return value
    # As JSON, since strict models take a date or a UUID from text only there.
    return ModelDecoder(wanted).decode(msgspec.json.encode(value))


@contextmanager
def naming(parameter: Parameter) -> Iterator[None]:
    """Name the parameter in a `TaskError` that the block raises."""
    try:
        yield
    except TaskError as error:
        raise TaskError(f"parameter {str(parameter)!r} cannot be filled: {error}") from None


def type_info(type_: Any) -> types.Type:
    """Return msgspec's description of a type."""
    try:
        return types.type_info(type_)
    except TypeError as error:
        raise TaskError(str(error)) from None


def _undecodable(info: types.Type, seen: set[int]) -> Iterator[str]:
    """Return the names of types within `info` that neither msgspec nor its hook knows."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, types.CustomType) and info.cls is not object and not is_pydantic_model(info.cls):
        yield getattr(info.cls, "__qualname__", str(info.cls))
    for part in _parts(info):
        yield from _undecodable(part, seen)


def _parts(info: types.Type) -> Iterator[types.Type]:
    for attribute in ("item_type", "key_type", "value_type", "type"):
        part = getattr(info, attribute, None)
        if isinstance(part, types.Type):
            yield part
    for attribute in ("item_types", "types", "fields"):
        for part in getattr(info, attribute, ()):
            yield part.type if isinstance(part, types.Field) else part


_fields = Decoder(dict[str, msgspec.Raw])


def raw_fields(payload_json: str) -> dict[str, msgspec.Raw]:
    """Return the keys of a JSON object, with their values still as text."""
    fields: dict[str, msgspec.Raw] = _fields.decode(payload_json)
    return fields
