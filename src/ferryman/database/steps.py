"""The steps that an operation is made of, the same for blocking and for async code.

An operation is a generator: it yields steps, gets rows back, and returns its result. It never touches a connection,
so `Client` can await the same steps that `SyncClient` blocks on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import msgspec

from ferryman.discreet import Discreet

if TYPE_CHECKING:
    from datetime import timedelta

    from ferryman.database.statements import Statement

Row: TypeAlias = Sequence[Any]
R = TypeVar("R")


class Call(Discreet, frozen=True):
    """Run one statement and return its rows. With `using`, on the caller's connection.

    is_lazy: True if the rows are read by column name. Async code leaves them undecoded, because few values are read
    """

    statement: Statement
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    using: Any = None
    is_lazy: bool = False

    def __repr__(self) -> str:
        return f"Call({self.statement.name})"  # parameters may be payloads

    def on(self, using: Any) -> Call:
        """The same call on the caller's connection; None leaves it on one of our own."""
        return self if using is None else Call(self.statement, self.parameters, using, self.is_lazy)


class Script(msgspec.Struct, frozen=True):
    """Run a file of several statements without parameters, on our own connection."""

    statement: Statement


class Transaction(msgspec.Struct, frozen=True):
    """Commit the steps before, and run the steps after in one transaction.

    On a borrowed connection it begins a transaction only if none is open; otherwise the owner's continues.
    """

    using: Any = None


class Rollback(msgspec.Struct, frozen=True):
    """Roll back our own transaction after an error."""


class Commit(msgspec.Struct, frozen=True):
    """Commit the steps before, and continue without a transaction."""


class Decide(msgspec.Struct, frozen=True):
    """Ask hooks about an event. Returns one row with their answer."""

    hooks: Any
    event: Any
    limit: float | None = None
    """Seconds after which async hooks count as failed."""


class Emit(msgspec.Struct, frozen=True):
    """Report an event to hooks."""

    hooks: Any
    event: Any
    within: timedelta | None = None
    """Time after which async hooks are cancelled, unless their own limit is shorter."""


class Wait(msgspec.Struct, frozen=True):
    """Pause. Outside a transaction, the connection is given back meanwhile."""

    seconds: float


class FirstProcess(msgspec.Struct, frozen=True):
    """Ask for the server process that answered when our own connection was opened. Returns one row with its number."""


class Repeat(msgspec.Struct, frozen=True):
    """Commit the steps before, and carry out these; repeat them from their start if PostgreSQL has undone all of them.

    The steps before run once: the caller's input may be a generator, and hooks are not asked twice. Returns one row
    with the result.
    """

    start: Callable[[], Generator[Any, Sequence[Row], Any]]


Step: TypeAlias = Call | Script | Transaction | Commit | Rollback | Decide | Emit | Wait | FirstProcess | Repeat
Steps: TypeAlias = Generator[Step, Sequence[Row], R]


def repeated(start: Callable[[], Steps[R]]) -> Steps[R]:
    """Carry out steps that repeat if PostgreSQL undoes them, and return their result; see `Repeat`."""
    [(result,)] = yield Repeat(start)
    return cast("R", result)
