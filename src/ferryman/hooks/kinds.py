"""The two kinds of events: those that hooks watch, and those that hooks decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from typing import Self, TypeGuard

E = TypeVar("E")
R = TypeVar("R")


class Observer:
    """An event that hooks watch. What they return is ignored."""

    __slots__ = ()


class Interceptor(ABC, Generic[E, R]):
    """An event that hooks decide by their answer.

    E: the event itself, so that type checkers know what a hook of it receives
    R: what a hook of it may answer; None stands for the answer that changes nothing
    """

    __slots__ = ()

    takes: ClassVar[str]
    """The answers, for people who gave another one."""

    @abstractmethod
    def accepts(self, answer: object) -> TypeGuard[R]:
        """Whether this is an answer to the event."""

    @abstractmethod
    def undecided(self) -> R:
        """The answer when no hook decides."""

    @abstractmethod
    def after_error(self, message: str) -> R:
        """The answer in place of one that a hook failed to give."""

    @abstractmethod
    def after(self, answer: R) -> Self | None:
        """The event that the next hook is asked about; None if the answer is final."""
