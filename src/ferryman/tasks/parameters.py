"""Sorts the parameters of a task: those from the payload, and the one for the context."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from ferryman.errors import TaskError
from ferryman.tasks.annotations import is_context, mentions_context, resolved, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "JSON objects have keys, not positions",
    inspect.Parameter.POSITIONAL_ONLY: "the worker passes every argument by its name",
}

_MODULES = re.compile(r"[\w.<>]+\.")
_STARS: dict[Any, str] = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}


class Parameter(msgspec.Struct, frozen=True):
    """A parameter that is filled from the payload."""

    name: str
    type: Any
    is_required: bool
    is_positional: bool
    shown: str

    def __str__(self) -> str:
        return self.shown


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of a task.

    context: the name of the parameter that gets the `WorkerContext`, if any
    extra: the `**` parameter that collects unknown keys, if any
    """

    from_payload: tuple[Parameter, ...]
    context: str | None
    extra: Parameter | None

    def __str__(self) -> str:
        parts = [str(item) for item in (*self.from_payload, *([self.extra] if self.extra else ()))]
        first_named = next((i for i, item in enumerate(self.from_payload) if not item.is_positional), None)
        if first_named is not None:
            parts.insert(first_named, "*")
        return f"({', '.join(parts)})"


def read_parameters(function: Callable[..., Any], near: Mapping[str, Any] | None = None) -> Parameters:
    """Return the parameters of `function`; `TaskError` for a kind that a payload cannot fill.

    `NameError` when an annotation cannot be resolved with what is defined so far.
    """
    declared = list(signature_of(function).parameters.values())
    for item in declared:
        if item.kind in _REFUSED:
            raise TaskError(f"parameter {shown(item, item.annotation)!r} cannot be filled: {_REFUSED[item.kind]}")
    context = _context_of(declared, function, near)
    read = {item.name: _read(item, function, near) for item in declared if item.name != context}
    extra = next((read.pop(item.name) for item in declared if item.kind is item.VAR_KEYWORD), None)
    return Parameters(tuple(read.values()), context, extra)


def _context_of(
    declared: list[inspect.Parameter], function: Callable[..., Any], near: Mapping[str, Any] | None
) -> str | None:
    wanting = [item.name for item in declared if _wants_context(item, function, near)]
    if len(wanting) > 1:
        raise TaskError(f"parameters {', '.join(wanting)} all ask for the context; only one can")
    return wanting[0] if wanting else None


def _wants_context(item: inspect.Parameter, function: Callable[..., Any], near: Mapping[str, Any] | None) -> bool:
    if item.kind is item.VAR_KEYWORD:
        return False
    if item.annotation is item.empty:
        return item.name == "ctx"
    try:
        return is_context(resolved(item.annotation, function, near))
    except NameError:
        return mentions_context(item.annotation)


def _read(item: inspect.Parameter, function: Callable[..., Any], near: Mapping[str, Any] | None) -> Parameter:
    type_ = resolved(item.annotation, function, near)
    return Parameter(
        name=item.name,
        type=type_,
        is_required=item.default is item.empty,
        is_positional=item.kind is item.POSITIONAL_OR_KEYWORD,
        shown=shown(item, type_ if item.annotation is not item.empty else item.empty),
    )


def shown(item: inspect.Parameter, annotation: object) -> str:
    """Return a parameter as it is written in Python."""
    stars = _STARS.get(item.kind, "")
    type_ = "" if annotation is item.empty else f": {_type_name(annotation)}"
    # A default may be anything, also a secret, and may be long: that there is one says enough.
    default = "" if item.default is item.empty else " = ..."
    return f"{stars}{item.name}{type_}{default}"


def _type_name(annotation: object) -> str:
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__.rpartition("<locals>.")[2]
    return _MODULES.sub("", inspect.formatannotation(annotation))
