"""Reads the annotations of a task's parameters, even as text, or with names that only type checkers import."""

from __future__ import annotations

import inspect
import re
import sys
import types
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from ferryman.context import WorkerContext
from ferryman.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MENTIONS_CONTEXT = re.compile(rf"\b{WorkerContext.__name__}\b")


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function; annotations that cannot be resolved stay text."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format  # noqa: PLC0415 - new in 3.14

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def resolved(annotation: object, function: Callable[..., Any], near: Mapping[str, Any] | None) -> Any:
    """Turn an annotation into a type; `NameError` if it names something that does not exist, or not yet.

    near: names beyond the function's module, such as those of the function that a task is defined in
    """
    if annotation is inspect.Parameter.empty:
        return Any

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    home = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(holder, home, dict(near or {}), include_extras=True)["it"]
    except (AttributeError, SyntaxError, TypeError) as error:
        raise TaskError(f"the annotation {annotation!r} is not a type: {error}") from None


def is_context(annotation: object) -> bool:
    """True if the annotation asks for the worker's context, also as an optional one."""
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return any(is_context(part) for part in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, WorkerContext)


def mentions_context(annotation: object) -> bool:
    """True if an annotation that cannot be resolved names the context.

    A `WorkerContext` that is imported for type checkers only leaves nothing else to go by.
    """
    return _MENTIONS_CONTEXT.search(str(annotation)) is not None
