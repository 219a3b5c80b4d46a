"""The SQL statements about jobs and workers: one `.sql` file each, and a function that makes a `Call` of it.

A folder holds the statements of one part of Ferryman: `claim`, `settle` and `attempt` serve a worker's jobs, `beat` and
`sweep` serve recovery, `jobs` and `schedules` serve clients, `checks` serves health. `parts` holds text that several
files include. `python -m ferryman.queries` lists all of these, and prints any of them as it is sent.

Other statements are beside the code that sends them: in `schema` those that install and upgrade it, in `database` those
that set up connections and transactions, in `cli/bench` those of the benchmark.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, overload

from ferryman.database.statements import load_statement
from ferryman.database.steps import Call, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P = ParamSpec("P")

Parameters: TypeAlias = "Mapping[str, Any]"

FOLDERS = ("claim", "settle", "attempt", "beat", "sweep", "jobs", "schedules", "checks")


class Query(Generic[P]):
    """One statement and its parameters. A query that is called gives a `Call`.

    The file is `NAME.sql` beside the function. It is read when the function is defined, so that a running program
    never mixes the statements of two releases.

    fill: turns arguments into the values of the statement's parameters
    is_qualified: see `Statement`
    is_lazy: see `Call`
    """

    __name__: str

    def __init__(
        self, fill: Callable[P, Parameters], *, name: str = "", is_qualified: bool = False, is_lazy: bool = False
    ) -> None:
        update_wrapper(self, fill)
        self.__name__ = name or self.__name__
        self.folder = fill.__module__.rpartition(".")[2]
        self.statement = load_statement(fill.__module__, self.__name__, is_qualified=is_qualified)
        self._fill = fill
        self._is_lazy = is_lazy

    def __repr__(self) -> str:
        return f"<query {self.folder}/{self.__name__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Make a call of the statement, on a connection of our own; see `Call.on`."""
        return Call(self.statement, self._fill(*args, **kwargs), None, self._is_lazy)

    def like(self, name: str, doc: str) -> Query[P]:
        """Another statement that takes the same parameters."""
        other = Query(self._fill, name=name, is_qualified=self.statement.is_qualified, is_lazy=self._is_lazy)
        other.__doc__ = doc
        return other


@overload
def query(fill: Callable[P, Parameters], /) -> Query[P]: ...
@overload
def query(*, is_qualified: bool = False, is_lazy: bool = False) -> Callable[[Callable[P, Parameters]], Query[P]]: ...
def query(
    fill: Callable[P, Parameters] | None = None, /, *, is_qualified: bool = False, is_lazy: bool = False
) -> Query[P] | Callable[[Callable[P, Parameters]], Query[P]]:
    """Make a function the query of the `.sql` file that has its name."""
    if fill is not None:
        return Query(fill)
    return lambda fill: Query(fill, is_qualified=is_qualified, is_lazy=is_lazy)


def script(package: str, name: str) -> Script:
    """A file of several statements without parameters."""
    return Script(load_statement(package, name))
