"""Decodes payloads that are one JSON object of a known type."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect as types

from ferryman.payloads import is_pydantic_model
from ferryman.tasks.decoders import Decoder, ModelDecoder, raw_fields, type_info
from ferryman.tasks.forms import did_you_mean, is_null
from ferryman.tasks.mismatches import MismatchError
from ferryman.traces import TRACEPARENT_KEY, without_trace

_WITH_FIELDS = (types.StructType, types.DataclassType, types.TypedDictType)


def is_structured(type_: Any) -> bool:
    """True if values of the type are JSON objects, so that one value can be a whole payload."""
    return is_pydantic_model(type_) or _is_object(type_info(type_))


class ObjectDecoder(msgspec.Struct, frozen=True):
    """Decodes a whole payload that is a JSON object.

    Keys that begin with `_` are reserved for the queue, such as `_cron`. They are dropped unless the type has it.
    `traceparent` is dropped in the same way, and `_trace` always. Any other key that the type does not have is refused,
    except where the type itself decides, as pydantic models and dicts do.

    known: the keys of the type; None if it takes any key
    """

    decoder: Decoder | ModelDecoder
    known: frozenset[str] | None = None

    def decode(self, payload_json: str) -> Any:
        """Decode the payload. Null is an object without keys."""
        if is_null(payload_json):
            payload_json = "{}"
        if self.known is None:
            return self.decoder.decode(without_trace(payload_json))
        return self.decoder.decode(self._cleaned(payload_json, self.known))

    def _cleaned(self, payload_json: str, known: frozenset[str]) -> str:
        fields = raw_fields(payload_json)
        strange = fields.keys() - known
        if not strange:
            return payload_json
        for name in strange:
            if not name.startswith("_") and name != TRACEPARENT_KEY:
                raise MismatchError(name, f"is unknown{did_you_mean(name, known)}")
            del fields[name]
        return msgspec.json.encode(fields).decode()


def object_decoder(type_: Any) -> ObjectDecoder:
    """Return the decoder for a type whose values are JSON objects; see `is_structured`."""
    if is_pydantic_model(type_):
        return ObjectDecoder(ModelDecoder(type_), _model_keys(type_))
    info = type_info(type_)
    return ObjectDecoder(Decoder(type_), _keys(info) if isinstance(info, _WITH_FIELDS) else None)


def _is_object(info: types.Type) -> bool:
    if isinstance(info, types.UnionType):
        return all(_is_object(part) for part in info.types)
    return isinstance(info, (*_WITH_FIELDS, types.DictType)) and not getattr(info, "array_like", False)


def _keys(info: types.StructType | types.DataclassType | types.TypedDictType) -> frozenset[str]:
    tag = getattr(info, "tag_field", None)
    return frozenset({field.encode_name for field in info.fields} | ({tag} if tag else set()))


def _model_keys(model: Any) -> frozenset[str] | None:
    """Return every key that a model reads; None if the model treats unknown keys itself."""
    if model.model_config.get("extra") != "forbid":
        return None
    aliases = (alias for field in model.model_fields.values() for alias in (field.alias, field.validation_alias))
    return frozenset({*model.model_fields, *(alias for alias in aliases if isinstance(alias, str))})
