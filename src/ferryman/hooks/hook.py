"""A function that is called for an event: checked when it is registered, and its errors are caught and logged."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ferryman.errors import ConfigurationError
from ferryman.hooks.answers import Continue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ferryman.hooks.kinds import Interceptor, Observer

E = TypeVar("E")
R = TypeVar("R")

logger = logging.getLogger("ferryman.hooks")


DEFAULT_TIMEOUT = timedelta(seconds=30)


class Hook(msgspec.Struct, frozen=True):
    """A function that is called for one kind of event.

    The event's values are never logged, because a payload can be confidential.
    """

    event_name: str
    handler: Callable[[Any], Any]
    name: str
    is_async: bool
    seconds: float | None
    """How long an async handler may take, in seconds; None: no limit."""

    def __str__(self) -> str:
        return f"{self.event_name} hook {self.name}"

    def start(self, event: Observer) -> Awaitable[object] | None:
        """Call the handler. If it is async, return the awaitable that is left to run."""
        try:
            answer = self.handler(event)
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a hook must not end the worker
            self.log(error)
            return None
        return answer if inspect.isawaitable(answer) else None

    async def ask(self, event: Interceptor[E, R]) -> R:
        """Call the handler and return its answer, or the answer that the event prescribes if the handler fails.

        The handler is awaited in the task of the caller, so that context variables that it sets reach the job.
        """
        limit, cancelled_before = asyncio.timeout(self.seconds), _cancellations()
        try:
            answer = self.handler(event)
            if inspect.isawaitable(answer):
                async with limit:
                    answer = await answer
        except GeneratorExit:
            raise
        except asyncio.CancelledError as error:
            if _cancellations() > cancelled_before:
                raise
            return self._failed(event, error)
        except BaseException as error:  # noqa: BLE001 - as above
            if isinstance(error, TimeoutError) and limit.expired():
                return event.after_error(self.log_timeout(self.seconds))
            return self._failed(event, error)
        return self._checked(event, answer)

    def ask_blocking(self, event: Interceptor[E, R]) -> R:
        """Like `ask`, in blocking code. `sys.exit()` passes through: the thread is the caller's."""
        try:
            answer = self.handler(event)
        except Exception as error:  # noqa: BLE001 - logged, and turned into an answer
            return self._failed(event, error)
        if inspect.isawaitable(answer):
            discard(answer)
            raise self.needs_a_loop()
        return self._checked(event, answer)

    def needs_a_loop(self) -> ConfigurationError:
        """The error for an async handler in blocking code."""
        return ConfigurationError(
            f"{self} is async, and a blocking client cannot await it; nothing was done. "
            f"Make it a plain function, or use the async Client."
        )

    def log(self, error: BaseException) -> None:
        """Log which hook failed, with its traceback."""
        logger.error("%s failed", self, exc_info=error, extra={"event": "hook_failed", "hook": str(self)})

    def limit(self, within: timedelta | None) -> float | None:
        """The handler's limit in seconds, or `within` if that is shorter."""
        if within is None or self.seconds is None:
            return self.seconds if within is None else within.total_seconds()
        return min(self.seconds, within.total_seconds())

    def log_timeout(self, seconds: float | None) -> str:
        """Log which hook took too long. Returns the same sentence."""
        complaint = f"{self} did not return within {seconds:g} s and was cancelled"
        logger.error("%s", complaint, extra={"event": "hook_timed_out", "hook": str(self)})
        return complaint

    def _failed(self, event: Interceptor[E, R], error: BaseException) -> R:
        self.log(error)
        return event.after_error(f"{self} failed: {_described(error)}")

    def _checked(self, event: Interceptor[E, R], answer: object) -> R:
        if answer is None:
            return event.undecided()
        answer = event.meant(answer)
        if event.accepts(answer):
            objection = event.objection(answer)
            if objection is None:
                return answer
            complaint = f"{self} returned {objection}"
        else:
            complaint = f"{self} returned {_kind(answer)}; it takes {event.takes}"
        logger.error("%s", complaint, extra={"event": "hook_answer_refused", "hook": str(self)})
        return event.after_error(complaint)


def make_hook(event: type, handler: Callable[[Any], Any], timeout: timedelta | None = DEFAULT_TIMEOUT) -> Hook:
    """Make a hook of a handler. Raises `ConfigurationError` if calling the handler could only fail."""
    if not callable(handler):
        raise ConfigurationError(f"a hook must be a function, not {type(handler).__name__}. It was not registered.")
    is_async = _is(inspect.iscoroutinefunction, handler)
    made = Hook(event.__name__, handler, _name(handler), is_async, _seconds(timeout))
    if _is(inspect.isgeneratorfunction, handler) or _is(inspect.isasyncgenfunction, handler):
        raise ConfigurationError(
            f"{made} contains yield, so calling it would do nothing. It was not registered; use return instead."
        )
    _check_parameters(made)
    return made


def _seconds(timeout: timedelta | None) -> float | None:
    if timeout is None:
        return None
    if not isinstance(timeout, timedelta) or timeout <= timedelta():
        raise ConfigurationError(
            f"the timeout of a hook is a timedelta above zero, or None for no limit; got {timeout!r}. The hook was not "
            f"registered."
        )
    return timeout.total_seconds()


def _check_parameters(made: Hook) -> None:
    try:
        signature = inspect.signature(made.handler)
    except (TypeError, ValueError):
        return  # some built-in functions do not say
    try:
        signature.bind(object())
    except TypeError as error:
        raise ConfigurationError(
            f"{made} must take one argument, the event ({error}). It was not registered."
        ) from None


def _is(test: Callable[[object], bool], handler: object) -> bool:
    """True if a handler passes the test: a function, an object with `__call__`, or a `functools.partial` of one."""
    handler = _unwrapped(handler)
    return test(handler) or (callable(handler) and test(type(handler).__call__))


def _name(handler: object) -> str:
    handler = _unwrapped(handler)
    named = handler if hasattr(handler, "__qualname__") else type(handler)
    return f"{getattr(named, '__module__', None) or '?'}.{named.__qualname__}"


def _unwrapped(handler: object) -> object:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler


def _kind(answer: object) -> str:
    if isinstance(answer, type):
        return f"the class {answer.__qualname__}, not an instance"
    if isinstance(answer, Continue):
        return "Continue with a payload"
    if type(answer).__module__ == "ferryman.handler_exceptions":
        name = type(answer).__qualname__
        return f"ferryman.{name}, which handlers raise; the answers are in ferryman.hooks"
    return f"a value of type {type(answer).__qualname__}"


def _described(error: BaseException) -> str:
    """The last lines of a traceback. Unlike str(), this works for exceptions whose str() fails."""
    return "".join(traceback.format_exception_only(error)).strip()


def _cancellations() -> int:
    """Return how often the current task was cancelled.

    If the number has not changed and a hook raises `CancelledError`, the cancellation was not meant for this task.
    """
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def discard(answer: object) -> None:
    """Close a coroutine that may never have started, so that Python does not warn about it."""
    if inspect.iscoroutine(answer):
        answer.close()
