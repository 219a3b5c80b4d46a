"""The two kinds of events: those that hooks only watch, and those about which hooks decide."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from ferryman.discreet import Discreet

if TYPE_CHECKING:
    from typing import Self, TypeGuard

E = TypeVar("E")
R = TypeVar("R")


class Observer(Discreet, frozen=True):
    """The base class of events that hooks only watch. What they return is ignored."""


class Interceptor(Discreet, Generic[E, R], frozen=True):
    """The base class of events about which hooks decide, by what they return.

    E: the type of the event, so that type checkers know what its hooks receive
    R: the answers of its hooks; None stands for the answer that changes nothing
    """

    takes: ClassVar[str]
    """The valid answers, for the error about any other."""

    def __repr__(self) -> str:
        # Payloads can hold data that must not be logged.
        shown = (name for name in self.__struct_fields__ if name != "payload")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @abstractmethod
    def accepts(self, answer: object) -> TypeGuard[R]:
        """True if this is a valid answer to the event."""

    def meant(self, answer: object) -> object:
        """Return the answer that a hook meant, if it used a short form."""
        return answer

    def objection(self, answer: R) -> str | None:  # noqa: ARG002 - for events that have one
        """Return why this answer does not fit this event; None if it fits."""
        return None

    @abstractmethod
    def undecided(self) -> R:
        """Return the answer for the case that no hook decides."""

    @abstractmethod
    def after_error(self, message: str) -> R:
        """Return the answer that replaces that of a hook that failed."""

    @abstractmethod
    def after(self, answer: R) -> Self | None:
        """Return the event that the next hook is asked about; None if the answer is final."""
