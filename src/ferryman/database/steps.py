"""What an operation asks of the database, said once for blocking and for async code.

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
    """Run one statement and give its rows back. With `using`, on the caller's connection.

    is_lazy: whether the rows are read by column name, and async code leaves them undecoded, since little of them will
        be read
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
    """Run a file of several statements without parameters, on a connection of our own."""

    statement: Statement


class Transaction(msgspec.Struct, frozen=True):
    """Commit what came before, and make one transaction of what follows.

    On a borrowed connection only where none is open: else the transaction is its owner's business.
    """

    using: Any = None


class Rollback(msgspec.Struct, frozen=True):
    """Give up the transaction of our own that an error has spoilt."""


class Commit(msgspec.Struct, frozen=True):
    """Commit what came before, and go on without a transaction."""


class Decide(msgspec.Struct, frozen=True):
    """Ask hooks about an event. One row with their answer comes back."""

    hooks: Any
    event: Any
    limit: float | None = None
    """Seconds after which async hooks are not waited for any longer, and count as failed."""


class Emit(msgspec.Struct, frozen=True):
    """Tell hooks of an event."""

    hooks: Any
    event: Any
    within: timedelta | None = None
    """After this long async hooks are cancelled, if their own limit is not shorter."""


class Wait(msgspec.Struct, frozen=True):
    """Let some time pass, outside any transaction of our own."""

    seconds: float


class FirstProcess(msgspec.Struct, frozen=True):
    """Ask which server process answered when our own connection was made. One row with its number comes back."""


class Repeat(msgspec.Struct, frozen=True):
    """Commit what came before, and carry out these steps; again from their start when PostgreSQL has undone them all.

    What came before is done once: what the caller gave may be a generator, and hooks are not asked twice. One row with
    the result comes back.
    """

    start: Callable[[], Generator[Any, Sequence[Row], Any]]


Step: TypeAlias = Call | Script | Transaction | Commit | Rollback | Decide | Emit | Wait | FirstProcess | Repeat
Steps: TypeAlias = Generator[Step, Sequence[Row], R]


def repeated(start: Callable[[], Steps[R]]) -> Steps[R]:
    """The result of steps that are repeated when PostgreSQL has undone them; see `Repeat`."""
    [(result,)] = yield Repeat(start)
    return cast("R", result)
