"""The steps of which operations on the database consist, the same for blocking and for async code.

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
    """A step: run one statement and return its rows. With `using`, on the caller's connection.

    is_lazy: True if the rows are read by column name. Async code leaves them undecoded, because few values are read
    """

    statement: Statement
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    using: Any = None
    is_lazy: bool = False

    def __repr__(self) -> str:
        return f"Call({self.statement.name})"  # parameters may be payloads

    def on(self, using: Any) -> Call:
        """Return the same step for the caller's connection; None leaves it on one of our own."""
        return self if using is None else Call(self.statement, self.parameters, using, self.is_lazy)


class Script(msgspec.Struct, frozen=True):
    """A step: run a file of several statements without parameters, on our own connection."""

    statement: Statement


class Transaction(msgspec.Struct, frozen=True):
    """A step: commit the steps before, and run the steps after in one transaction.

    On a borrowed connection it begins a transaction only if none is open; otherwise the owner's continues.
    """

    using: Any = None


class Rollback(msgspec.Struct, frozen=True):
    """A step: roll back our own transaction after an error."""


class Commit(msgspec.Struct, frozen=True):
    """A step: commit the steps before, and continue without a transaction."""


class Decide(msgspec.Struct, frozen=True):
    """A step: ask hooks to decide an event. Returns one row with their answer."""

    hooks: Any
    event: Any
    limit: float | None = None
    """Seconds after which async hooks count as failed."""


class Emit(msgspec.Struct, frozen=True):
    """A step: report an event to hooks."""

    hooks: Any
    event: Any
    within: timedelta | None = None
    """Time after which async hooks are cancelled, unless their own limit is shorter."""


class Wait(msgspec.Struct, frozen=True):
    """A step: pause. Outside a transaction, the connection is given back to the pool meanwhile."""

    seconds: float


class FirstProcess(msgspec.Struct, frozen=True):
    """A step: return one row with the number of the server process that answered when our connection was opened."""


class Repeat(msgspec.Struct, frozen=True):
    """A step: commit the steps before, and carry out others, repeated from their start if PostgreSQL rolled them back.

    The steps before run once: the caller's input may be a generator, and hooks are not asked twice. Returns one row
    with the result.
    """

    start: Callable[[], Generator[Any, Sequence[Row], Any]]


Step: TypeAlias = Call | Script | Transaction | Commit | Rollback | Decide | Emit | Wait | FirstProcess | Repeat
Steps: TypeAlias = Generator[Step, Sequence[Row], R]


def repeated(start: Callable[[], Steps[R]]) -> Steps[R]:
    """Carry out steps, repeated if PostgreSQL rolls them back, and return their result; see `Repeat`."""
    [(result,)] = yield Repeat(start)
    return cast("R", result)
