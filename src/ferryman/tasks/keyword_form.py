"""The usual payload: a JSON object with a key for each parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import msgspec

from ferryman.tasks.decoders import Decoder, is_list, naming, raw_fields
from ferryman.tasks.forms import Arguments, ArgumentsError, did_you_mean, is_null
from ferryman.tasks.mismatches import MismatchError
from ferryman.traces import TRACEPARENT_KEY, without_trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferryman.tasks.parameters import Parameter, Parameters


class KeywordForm(msgspec.Struct, frozen=True):
    """A JSON object with a key for each parameter.

    Keys that begin with `_` belong to the queue, as `_cron` does: they are dropped unless a parameter has that name.
    So is `traceparent`, where nothing collects other keys.

    extra: decodes the keys that the `**` parameter collects
    list_name: the only parameter, if it is a list; it also takes the array of a batch job
    """

    parameters: Mapping[str, Parameter]
    decoder: Decoder
    extra: Decoder | None
    list_name: str | None
    noun: str = "argument"

    def gather(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the keys and values of the payload, from the arguments of a call."""
        named = self._named(args, kwargs) if args else kwargs
        if named.keys() == self.parameters.keys():
            return named
        for name in named:
            if name not in self.parameters:
                self._check_extra(name)
        for name, parameter in self.parameters.items():
            if parameter.is_required and name not in named:
                raise ArgumentsError(f"missing argument {name!r}")
        return named

    def read(self, payload_json: str) -> dict[str, Any]:
        """Return the arguments in the payload. Null has none; an array is the value of the only list parameter."""
        if not payload_json.startswith("{"):
            payload_json = self._as_object(payload_json)
        named: dict[str, Any] = self.decoder.decode(payload_json)
        # Each key has a colon. If there are no more of them than names, the payload has no other keys.
        if payload_json.count(":") == len(named):
            return named
        fields = raw_fields(payload_json)
        return named if len(fields) == len(named) else named | self._read_extra(fields)

    def check(self, payload_json: str) -> None:
        """Read the payload back. Its names were checked when it was gathered, so only values can mismatch."""
        if self.extra is None:
            self.decoder.decode(payload_json)
        else:
            self.read(payload_json)

    def arguments(self, value: dict[str, Any]) -> Arguments:
        """Return each key as a keyword argument."""
        return Arguments(kwargs=value)

    def _as_object(self, payload_json: str) -> str:
        """Return the payload as a JSON object, if it can be one."""
        if self.list_name is not None and payload_json.lstrip().startswith("["):
            return f'{{"{self.list_name}":{without_trace(payload_json)}}}'
        return "{}" if is_null(payload_json) else payload_json

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = [item.name for item in self.parameters.values() if item.is_positional]
        if len(args) > len(names):
            raise ArgumentsError(f"{len(args)} positional arguments were given, but it takes {len(names)}")
        positional = dict(zip(names, args, strict=False))
        for name in positional.keys() & kwargs.keys():
            raise ArgumentsError(f"argument {name!r} was given twice")
        return positional | kwargs

    def _check_extra(self, name: str) -> None:
        if self.extra is None:
            raise ArgumentsError(f"unknown argument {name!r}{did_you_mean(name, self.parameters)}")
        if name.startswith("_"):
            raise ArgumentsError(f"argument {name!r} begins with '_'; such keys are reserved for the queue")

    def _read_extra(self, fields: dict[str, msgspec.Raw]) -> dict[str, Any]:
        strange = [name for name in fields if name not in self.parameters and not name.startswith("_")]
        if self.extra is None:
            unknown = next((name for name in strange if name != TRACEPARENT_KEY), None)
            if unknown is not None:
                raise MismatchError(unknown, f"is unknown{did_you_mean(unknown, self.parameters)}")
            return {}
        return {name: self._decode_extra(name, fields[name]) for name in strange}

    def _decode_extra(self, name: str, value: msgspec.Raw) -> Any:
        decoder: Any = self.extra
        try:
            return decoder.decode(bytes(value))
        except MismatchError as error:
            raise error.within(name) from None


def keyword_form(parameters: Parameters) -> KeywordForm:
    """Return the form of payloads with these parameters; `TaskError` if one cannot be read from JSON."""
    named = {item.name: item for item in parameters.from_payload}
    for item in named.values():
        _decoder_for(item)
    keys = {name: item.type if item.is_required else NotRequired[item.type] for name, item in named.items()}
    only = next(iter(named.values())) if len(named) == 1 else None
    return KeywordForm(
        named,
        Decoder(TypedDict("Payload", keys)),  # type: ignore[operator]  # the keys are known only now
        None if parameters.extra is None else _decoder_for(parameters.extra),
        only.name if only is not None and is_list(only.type) else None,
    )


def _decoder_for(parameter: Parameter) -> Decoder:
    with naming(parameter):
        return Decoder(parameter.type)
