"""The two kinds of events: those that hooks watch, and those that hooks decide."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from ferryman.discreet import Discreet

if TYPE_CHECKING:
    from typing import Self, TypeGuard

E = TypeVar("E")
R = TypeVar("R")


class Observer(Discreet, frozen=True):
    """An event that hooks watch. What they return is ignored."""


class Interceptor(Discreet, Generic[E, R], frozen=True):
    """An event that hooks decide by their answer.

    E: the event itself, so that type checkers know what a hook of it receives
    R: what a hook of it may answer; None stands for the answer that changes nothing
    """

    takes: ClassVar[str]
    """The answers, for people who gave another one."""

    def __repr__(self) -> str:
        # Payloads may hold what should not be seen in a log.
        shown = (name for name in self.__struct_fields__ if name != "payload")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @abstractmethod
    def accepts(self, answer: object) -> TypeGuard[R]:
        """Whether this is an answer to the event."""

    def meant(self, answer: object) -> object:
        """The answer that a hook meant, where there is a short way to write it."""
        return answer

    def objection(self, answer: R) -> str | None:  # noqa: ARG002 - for events that have one
        """Why this answer makes no sense for this event; None if it does."""
        return None

    @abstractmethod
    def undecided(self) -> R:
        """The answer when no hook decides."""

    @abstractmethod
    def after_error(self, message: str) -> R:
        """The answer in place of one that a hook failed to give."""

    @abstractmethod
    def after(self, answer: R) -> Self | None:
        """The event that the next hook is asked about; None if the answer is final."""
