"""Rows that are decoded on demand: a worker claims hundreds of jobs at once, and reads few columns of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from psycopg import DataError
from psycopg.adapt import Transformer
from psycopg.pq import Format

from ferryman.far_times import FarTime

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from psycopg import AsyncConnection
    from psycopg.pq.abc import PGresult

    from ferryman.database.steps import Row

    Load: TypeAlias = Callable[[bytes], Any]


_TIMESTAMPTZ = 1184


class LazyRows(Sequence[Sequence[Any]]):
    """The rows of one result. A row is decoded each time it is read.

    loads: what decodes a value, for each column
    """

    def __init__(self, result: PGresult, loads: Sequence[Load]) -> None:
        self._result = result
        self._loads = loads

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
        return tuple(self.value(row, number) for number in range(len(self._loads)))

    def column(self, number: int) -> list[Any]:
        """Decode one column of every row."""
        load, get = self._loads[number], self._result.get_value
        values = [get(place, number) for place in range(self._result.ntuples)]
        return [None if value is None else load(value) for value in values]

    def value(self, place: int, number: int) -> Any:
        """Decode one value of one row."""
        value = self._result.get_value(place, number)
        return None if value is None else self._loads[number](value)


def loads_of(connection: AsyncConnection[Any], result: PGresult) -> Sequence[Load]:
    """The decoders for the columns of this result, and of every result of this statement on this connection."""
    transformer = Transformer(connection)
    columns = ((result.ftype(number), Format(result.fformat(number))) for number in range(result.nfields))
    loads = ((oid, transformer.get_loader(oid, form).load) for oid, form in columns)
    return [_load_time(load) if oid == _TIMESTAMPTZ else load for oid, load in loads]


def _load_time(load: Load) -> Load:
    """Like `load`, which fails for times that a datetime cannot hold."""

    def load_any(value: bytes) -> Any:
        try:
            return load(value)
        except DataError:
            return FarTime.of(bytes(value).decode())

    return load_any


def column(rows: Sequence[Row], number: int) -> list[Any]:
    """Read one column of rows of any kind."""
    return rows.column(number) if isinstance(rows, LazyRows) else [row[number] for row in rows]


def value(rows: Sequence[Row], place: int, number: int) -> Any:
    """Read one value of rows of any kind. Other values of its row may be undecodable."""
    return rows.value(place, number) if isinstance(rows, LazyRows) else rows[place][number]
