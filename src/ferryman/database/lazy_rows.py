"""Rows that are read by column name, and decoded value by value: a worker needs little of each job that it claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from psycopg import DataError
from psycopg.adapt import Transformer
from psycopg.pq import Format

from ferryman.far_times import FarTime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from psycopg import AsyncConnection
    from psycopg.pq.abc import PGresult

    from ferryman.database.steps import Row

    Load: TypeAlias = Callable[[bytes], Any]


_TIMESTAMPTZ = 1184


class Columns(NamedTuple):
    """The columns of a statement's rows, learned once for each statement and connection."""

    loads: Sequence[Load]
    """The decoders, in the order of the columns."""
    by_name: Mapping[str, tuple[int, Load]]
    """The number and the decoder of each column."""


class LazyRows(Sequence[Sequence[Any]]):
    """The rows of one result. A value is decoded each time that it is read."""

    def __init__(self, result: PGresult, columns: Columns) -> None:
        self._result = result
        self._loads, self._by_name = columns

    def __len__(self) -> int:
        return self._result.ntuples

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        row = range(len(self))[place]
        values = (self._result.get_value(row, number) for number in range(len(self._loads)))
        return tuple(None if value is None else load(value) for load, value in zip(self._loads, values, strict=True))

    def column(self, name: str) -> list[Any]:
        """Read one column of every row."""
        (number, load), get = self._by_name[name], self._result.get_value
        values = [get(place, number) for place in range(self._result.ntuples)]
        return [None if value is None else load(value) for value in values]

    def value(self, place: int, name: str) -> Any:
        """Read one value. The others of its row need not be decodable."""
        number, load = self._by_name[name]
        value = self._result.get_value(place, number)
        return None if value is None else load(value)

    def only(self, place: int) -> NamedRows:
        """Decode one row, and keep nothing of the others."""
        return NamedRows(tuple(self._by_name), [self[place]])


class NamedRows(Sequence[Sequence[Any]]):
    """Rows that are decoded already, read by column name like `LazyRows`."""

    def __init__(self, names: Sequence[str], rows: Sequence[Row]) -> None:
        self._names = names
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        return self._rows[place]

    def column(self, name: str) -> list[Any]:
        """Read one column of every row."""
        number = self._names.index(name)
        return [row[number] for row in self._rows]

    def value(self, place: int, name: str) -> Any:
        """Read one value."""
        return self._rows[place][self._names.index(name)]

    def only(self, place: int) -> NamedRows:
        """Take one row, and keep nothing of the others."""
        return NamedRows(self._names, [self._rows[place]])


def columns_of(connection: AsyncConnection[Any], result: PGresult) -> Columns:
    """Return the columns of this result, and of all others of the same statement on this connection."""
    transformer = Transformer(connection)
    names, loads = [], []
    for number in range(result.nfields):
        oid = result.ftype(number)
        load = transformer.get_loader(oid, Format(result.fformat(number))).load
        names.append((result.fname(number) or b"").decode())
        loads.append(_load_time(load) if oid == _TIMESTAMPTZ else load)
    return Columns(loads, {name: (number, loads[number]) for number, name in enumerate(names)})


def _load_time(load: Load) -> Load:
    """Return a function that reads times like `load`, and gives a `FarTime` where a datetime cannot hold one."""

    def load_any(value: bytes) -> Any:
        try:
            return load(value)
        except DataError:
            return FarTime.of(bytes(value).decode())

    return load_any
