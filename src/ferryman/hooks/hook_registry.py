"""The registry of hooks: stores which functions to call for each event, and calls them."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

from ferryman.errors import ConfigurationError
from ferryman.hooks.hook import DEFAULT_TIMEOUT, discard, make_hook
from ferryman.hooks.kinds import Interceptor, Observer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
    from datetime import timedelta

    from ferryman.hooks.hook import Hook

    Event: TypeAlias = Observer | Interceptor[Any, Any]

O = TypeVar("O", bound=Observer)  # noqa: E741 - beside E and R
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
R = TypeVar("R")

CLEAN_UP_SECONDS = 1.0
_cancelled: set[asyncio.Future[BaseException | None]] = set()
"""Handlers that were cancelled and have not ended yet. The event loop holds only weak references to them."""


class Plugin(Protocol):
    """A set of hooks that are registered together; see `HookRegistry.add_plugin`."""

    def register(self, hooks: HookRegistry) -> None:
        """Add the hooks with `hooks.on`."""


class Decorator(Protocol[E, R]):
    """Registers the function below it, and returns it unchanged."""

    @overload
    def __call__(self, handler: Callable[[E], Coroutine[Any, Any, R]], /) -> Callable[[E], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, handler: Callable[[E], R], /) -> Callable[[E], R]: ...


class HookRegistry:
    """The functions to call for each event, in the order of registration.

        hooks = HookRegistry()

        @hooks.on(JobFail)
        async def report(event: JobFail) -> None: ...

    Handlers are async or plain functions. A plain one is called on the event loop, so it must not block.
    """

    def __init__(self) -> None:
        # Tuples are replaced, never changed: a registration does not disturb a loop over one.
        self._hooks: dict[type, tuple[Hook, ...]] = {}
        self._version = 0

    def __repr__(self) -> str:
        counts = (f"{event.__name__}: {len(hooks)}" for event, hooks in self._hooks.items())
        return f"<HookRegistry: {', '.join(counts) or 'empty'}>"

    @overload
    def on(self, event: type[O], *, timeout: timedelta | None = ...) -> Decorator[O, None]: ...
    @overload
    def on(self, event: type[Interceptor[E, R]], *, timeout: timedelta | None = ...) -> Decorator[E, R | None]: ...
    @overload
    def on(
        self,
        event: type[Interceptor[E, R]],
        handler: Callable[[E], R | Awaitable[R | None] | None],
        *,
        timeout: timedelta | None = ...,
    ) -> None: ...
    @overload
    def on(
        self, event: type[O], handler: Callable[[O], Awaitable[None] | None], *, timeout: timedelta | None = ...
    ) -> None: ...
    def on(self, event: Any, handler: Any = None, *, timeout: timedelta | None = DEFAULT_TIMEOUT) -> Any:
        """Register a handler: `hooks.on(JobFail, report)`, or `@hooks.on(JobFail)` above it.

        timeout: how long an async handler may take before it is cancelled and counts as failed; None for no limit
        """
        _check_event(event)
        if handler is not None:
            return self._add(event, handler, timeout)

        def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            self._add(event, function, timeout)
            return function

        return register

    def add_plugin(self, plugin: Plugin) -> None:
        """Register the hooks of a plugin, by calling its `register`. They come after those registered before."""
        if isinstance(plugin, type) or not callable(getattr(plugin, "register", None)):
            raise ConfigurationError(
                "a plugin must be an object with a method register(hooks), and not a class. Nothing was registered."
            )
        plugin.register(self)

    def merged(self, *others: HookRegistry) -> HookRegistry:
        """Return a new registry with these hooks, then those of the others. A registry given twice counts once."""
        result = HookRegistry()
        for registry in dict.fromkeys((self, *others)):
            for event, hooks in registry._hooks.items():  # noqa: SLF001 - of the same class
                result._hooks[event] = (*result._hooks.get(event, ()), *hooks)
        return result

    def copy(self) -> HookRegistry:
        """Return a new registry with the same hooks. A hook added to one of the two later is not added to the other."""
        return self.merged()

    @property
    def version(self) -> int:
        """A number that changes with each registration, for code that caches which events have handlers."""
        return self._version

    @property
    def is_empty(self) -> bool:
        """True if no handler is registered."""
        return not self._hooks

    def wants(self, event: type[Event]) -> bool:
        """True if a handler is registered for this event. Check it before building the event."""
        return event in self._hooks

    def wants_any(self, *events: type[Event]) -> bool:
        """True if a handler is registered for any of these events."""
        return not self._hooks.keys().isdisjoint(events)

    async def emit(self, event: Observer, *, within: timedelta | None = None) -> None:
        """Call all handlers of the event at the same time, and wait for all. Their errors are logged, never raised.

        within: a limit for each handler, if it is shorter than the handler's own
        """
        started = [(hook, left) for hook in self._of(event) if (left := hook.start(event)) is not None]
        if started:
            await _wait_for(started, within)

    def emit_blocking(self, event: Observer) -> None:
        """Like `emit`, for blocking code. Async handlers cannot be awaited there: each is skipped and logged."""
        for hook in self._of(event):
            if hook.is_async:
                hook.log(hook.needs_a_loop())
            elif (left := hook.start(event)) is not None:
                discard(left)
                hook.log(hook.needs_a_loop())

    async def intercept(self, event: Interceptor[E, R]) -> R:
        """Call the handlers one by one until one makes a final decision, and return the decision.

        Their errors are logged; the event's `after_error` gives the answer in place of a handler that failed.
        """
        for hook in self._of(event):
            answer = await hook.ask(event)
            following = event.after(answer)
            if following is None:
                return answer
            event = following
        return event.undecided()

    def intercept_blocking(self, event: Interceptor[E, R]) -> R:
        """Like `intercept`, for blocking code. An async handler raises `ConfigurationError` before any is called."""
        hooks = self._of(event)
        for hook in hooks:
            if hook.is_async:
                raise hook.needs_a_loop()
        for hook in hooks:
            answer = hook.ask_blocking(event)
            following = event.after(answer)
            if following is None:
                return answer
            event = following
        return event.undecided()

    def _of(self, event: Event) -> tuple[Hook, ...]:
        return self._hooks.get(type(event), ())

    def _add(self, event: type, handler: Callable[[Any], Any], timeout: timedelta | None) -> None:
        self._hooks[event] = (*self._hooks.get(event, ()), make_hook(event, handler, timeout))
        self._version += 1


async def _wait_for(started: Sequence[tuple[Hook, Awaitable[object]]], within: timedelta | None) -> None:
    """Wait for handlers, each within its own limit. They run at the same time, and are cancelled with the caller."""
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    waiting = [(hook, left, asyncio.ensure_future(_end(left))) for hook, left in started]
    try:
        for hook, left, task in waiting:
            seconds = hook.limit(within)
            await asyncio.wait(
                [task], timeout=None if seconds is None else max(0.0, started_at + seconds - loop.time())
            )
            if not task.done():
                hook.log_timeout(seconds)
                _cancel([(left, task)])
            elif (error := task.result()) is not None:
                hook.log(error)
    except asyncio.CancelledError:
        _cancel((left, task) for _, left, task in waiting)
        # Handlers may clean up, but not for long: the caller that cancelled this is waiting.
        await asyncio.wait([task for _, _, task in waiting], timeout=CLEAN_UP_SECONDS)
        raise


def _cancel(waiting: Iterable[tuple[Awaitable[object], asyncio.Future[BaseException | None]]]) -> None:
    for left, task in waiting:
        if not task.done():
            _cancelled.add(task)
            task.add_done_callback(_cancelled.discard)
            # A task that is cancelled before its first step never runs its coroutine.
            task.add_done_callback(functools.partial(_discard_after, left))
            task.cancel()


def _discard_after(left: Awaitable[object], _: object) -> None:
    discard(left)


async def _end(left: Awaitable[object]) -> BaseException | None:
    """Await a handler, and return its error, if any. Raised in a task, `sys.exit()` would stop the event loop."""
    try:
        await left
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - for the log
        return error
    return None


def _check_event(event: object) -> None:
    is_event = inspect.isclass(event) and issubclass(event, (Observer, Interceptor))
    if not is_event or event in (Observer, Interceptor):
        raise ConfigurationError(
            f"hooks are registered for an event such as JobFail, not for {event!r}. Nothing was registered. The events "
            f"are in ferryman.hooks."
        )
