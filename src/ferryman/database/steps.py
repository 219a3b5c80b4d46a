"""What an operation asks of the database, said once for blocking and for async code.

An operation is a generator: it yields steps, gets rows back, and returns its result. It never touches a connection,
so `Client` can await the same steps that `SyncClient` blocks on.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from ferryman.database.statements import Statement

Row: TypeAlias = Sequence[Any]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call:
    """Run one statement and give its rows back. With `using`, on the caller's connection.

    is_lazy: whether async code should leave the rows undecoded, since little of them will be asked for
    """

    statement: Statement
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    using: Any = None
    is_lazy: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """Run a file of several statements without parameters, on a connection of our own."""

    statement: Statement


@dataclass(frozen=True, slots=True)
class Transaction:
    """Commit what came before, and make one transaction of what follows.

    On a borrowed connection nothing happens: transactions are its owner's business.
    """

    using: Any = None


@dataclass(frozen=True, slots=True)
class Rollback:
    """Give up the transaction of our own that an error has spoilt."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit what came before, and go on without a transaction."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Ask hooks about an event. One row with their answer comes back."""

    hooks: Any
    event: Any
    limit: float | None = None
    """Seconds after which async hooks are not waited for any longer, and count as failed."""


@dataclass(frozen=True, slots=True)
class Emit:
    """Tell hooks of an event."""

    hooks: Any
    event: Any


@dataclass(frozen=True, slots=True)
class Wait:
    """Let some time pass, outside any transaction of our own."""

    seconds: float


@dataclass(frozen=True, slots=True)
class FirstProcess:
    """Ask which server process answered when our own connection was made. One row with its number comes back."""


Step: TypeAlias = Call | Script | Transaction | Commit | Rollback | Decide | Emit | Wait | FirstProcess
Steps: TypeAlias = Generator[Step, Sequence[Row], R]
