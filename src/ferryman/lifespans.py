"""Lifespans: resources that a worker opens before its first job and closes after its last."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

Brought: TypeAlias = Mapping[Any, Any] | None
"""The values for `ctx.extensions`; None adds none."""
Lifespan: TypeAlias = Callable[[], AsyncIterator[Brought] | AbstractAsyncContextManager[Brought]]
L = TypeVar("L", bound=Lifespan)

HOW = "write an `async def` without parameters that yields once: a mapping for ctx.extensions, or nothing"


class Lifespans:
    """The lifespans of an application, in the order of their registration."""

    def __init__(self) -> None:
        self._known: dict[Lifespan, None] = {}

    def __iter__(self) -> Iterator[Lifespan]:
        return iter(self._known)

    def add(self, lifespan: Lifespan) -> None:
        """Register a lifespan. One that is registered already keeps its place."""
        if not callable(lifespan) or inspect.iscoroutinefunction(lifespan) or inspect.isgeneratorfunction(lifespan):
            raise ConfigurationError(f"{_name(lifespan)} cannot be used: {HOW}")
        self._known.setdefault(lifespan)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Mapping[Any, Any]]:
        """Open every lifespan, and close them in reverse order. Yields their values in one mapping."""
        brought: dict[Any, Any] = {}
        async with AsyncExitStack() as stack:
            for lifespan in self:
                found = await stack.enter_async_context(_Told(lifespan))
                if twice := found.keys() & brought.keys():
                    raise ConfigurationError(
                        f"{_name(lifespan)} provides the extension {min(map(repr, twice))}, which another lifespan "
                        f"already provides. Rename one of them."
                    )
                brought.update(found)
            yield brought


class _Told:
    """Opens and closes a lifespan, and names it in each of its errors."""

    def __init__(self, lifespan: Lifespan) -> None:
        self._lifespan = lifespan

    async def __aenter__(self) -> Mapping[Any, Any]:
        try:
            self._opened = _made(self._lifespan)
            found = await self._opened.__aenter__()
        except Exception as error:
            raise self._failure("start", error) from error
        if found is None or isinstance(found, Mapping):
            return found or {}
        problem = ConfigurationError(f"{_name(self._lifespan)} provides {type(found).__name__}, not a mapping; {HOW}")
        await self.__aexit__(type(problem), problem, None)
        raise problem

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # Its result is ignored: a lifespan must not hide that the worker failed.
            await self._opened.__aexit__(kind, error, trace)
        except Exception as raised:
            if raised is not error:
                raise self._failure("end", raised) from raised

    def _failure(self, what: str, error: Exception) -> ConfigurationError:
        if isinstance(error, ConfigurationError):
            return error
        told = traceback.format_exception_only(error)[-1].strip()
        return ConfigurationError(f"{_name(self._lifespan)} failed to {what} at {self._place(error)}: {told}")

    def _place(self, error: Exception) -> str:
        """Return where it failed: the last line in the lifespan's own file, not one deep in a library."""
        frames = traceback.extract_tb(error.__traceback__)
        file = inspect.getsourcefile(inspect.unwrap(self._lifespan))
        last = ([frame for frame in frames if frame.filename == file] or frames)[-1]
        return f"{last.filename}:{last.lineno}"


def _made(lifespan: Lifespan) -> AbstractAsyncContextManager[Brought]:
    opened = lifespan()
    if isinstance(opened, AbstractAsyncContextManager):
        return opened
    if isinstance(opened, AsyncGenerator):
        return asynccontextmanager(lambda: opened)()
    raise ConfigurationError(f"{_name(lifespan)} gave {type(opened).__name__}: {HOW}")


def _name(lifespan: object) -> str:
    return f"the lifespan {getattr(lifespan, '__qualname__', type(lifespan).__qualname__)!r}"
