"""`client.schedules`: the operations on schedules, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ferryman.client import schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ferryman.client.asynchronous import Client
    from ferryman.client.blocking import SyncClient
    from ferryman.client.core import Core
    from ferryman.database.steps import Steps

P = ParamSpec("P")
R = TypeVar("R")


class _Awaited(Generic[P, R]):
    """An operation as a method that is awaited."""

    def __init__(self, operation: Callable[Concatenate[Core, P], Steps[R]]) -> None:
        self._operation = operation
        self.__wrapped__ = operation
        self.__doc__ = operation.__doc__

    @overload
    def __get__(self, access: None, owner: type[Schedules]) -> Self: ...
    @overload
    def __get__(self, access: Schedules, owner: type[Schedules]) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, access: Schedules | None, owner: type[Schedules]) -> Self | Callable[P, Coroutine[Any, Any, R]]:
        if access is None:
            return self
        client = access._client  # noqa: SLF001 - a method in all but name

        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await client._perform(lambda: self._operation(client._core, *args, **kwargs))  # noqa: SLF001

        return call


class _Blocking(Generic[P, R]):
    """An operation as a method that blocks."""

    def __init__(self, operation: Callable[Concatenate[Core, P], Steps[R]]) -> None:
        self._operation = operation
        self.__wrapped__ = operation
        self.__doc__ = operation.__doc__

    @overload
    def __get__(self, access: None, owner: type[SyncSchedules]) -> Self: ...
    @overload
    def __get__(self, access: SyncSchedules, owner: type[SyncSchedules]) -> Callable[P, R]: ...
    def __get__(self, access: SyncSchedules | None, owner: type[SyncSchedules]) -> Self | Callable[P, R]:
        if access is None:
            return self
        client = access._client  # noqa: SLF001 - a method in all but name

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return client._perform(lambda: self._operation(client._core, *args, **kwargs))  # noqa: SLF001

        return call


class Schedules:
    """Schedules that are kept in the database: add, change, pause and remove them while workers run.

        await client.schedules.add("0 8 * * 1-5 send_report ?fill=1h&tz=Europe/Paris {to: 'team'}")

    Every worker follows them within a minute, without a restart. All methods take `using=`.
    """

    add = _Awaited(schedules.add)
    change = _Awaited(schedules.change)
    pause = _Awaited(schedules.pause)
    resume = _Awaited(schedules.resume)
    remove = _Awaited(schedules.remove)
    list = _Awaited(schedules.list_schedules)
    known = _Awaited(schedules.known)
    run_now = _Awaited(schedules.run_now)

    def __init__(self, client: Client) -> None:
        self._client = client


class SyncSchedules:
    """`Schedules` for code without an event loop: the same methods, blocking."""

    add = _Blocking(schedules.add)
    change = _Blocking(schedules.change)
    pause = _Blocking(schedules.pause)
    resume = _Blocking(schedules.resume)
    remove = _Blocking(schedules.remove)
    list = _Blocking(schedules.list_schedules)
    known = _Blocking(schedules.known)
    run_now = _Blocking(schedules.run_now)

    def __init__(self, client: SyncClient) -> None:
        self._client = client
