"""Makes methods of the clients out of operations, which are written once for both."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ferryman.client.base import Core
    from ferryman.database.steps import Steps

P = ParamSpec("P")
R = TypeVar("R")

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def awaited(
    operation: Callable[Concatenate[Core, P], Steps[R]], name: str | None = None
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return an async method of `Client` that runs an operation. It has the operation's docstring and parameters.

    name: the method's name, if it is not the operation's
    """

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = await self._perform(partial(operation, self._core, *args, **kwargs))
        return result

    _describe(method, operation, name)
    return method


def blocking(
    operation: Callable[Concatenate[Core, P], Steps[R]], name: str | None = None
) -> Callable[Concatenate[Any, P], R]:
    """Return a blocking method of `SyncClient` that runs an operation; otherwise like `awaited`."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._perform(partial(operation, self._core, *args, **kwargs))
        return result

    _describe(method, operation, name)
    return method


def _describe(method: Any, operation: Callable[..., Any], name: str | None) -> None:
    """Let `help()`, `inspect.signature` and tracebacks show a method as if it had been written out."""
    signature = inspect.signature(operation)
    _, *parameters = signature.parameters.values()
    result = signature.return_annotation.removeprefix("Steps[").removesuffix("]")  # a string, not yet looked up
    method.__name__ = method.__qualname__ = name or operation.__name__
    method.__doc__ = operation.__doc__
    method.__module__ = operation.__module__
    method.__signature__ = signature.replace(parameters=[_SELF, *parameters], return_annotation=result)
