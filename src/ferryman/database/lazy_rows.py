"""Rows that are decoded when somebody asks: a worker claims hundreds of jobs at once, and needs little of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from psycopg.adapt import Transformer
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import AsyncConnection
    from psycopg.pq.abc import PGresult

    from ferryman.database.steps import Row


class LazyRows(Sequence[Sequence[Any]]):
    """The rows of one result. A row is decoded each time that it is asked for."""

    def __init__(self, connection: AsyncConnection[Any], result: PGresult) -> None:
        self._result = result
        # Now, since it asks the connection for its encoding and time zone, and that may be closed later.
        self._transformer = Transformer(connection)
        self._transformer.set_pgresult(result)

    def __len__(self) -> int:
        return self._result.ntuples

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        row = self._transformer.load_row(range(len(self))[place], tuple)
        assert row is not None  # noqa: S101 - only without a result
        return row

    def column(self, number: int) -> list[Any]:
        """All values of one column."""
        load, get = self._loader(number), self._result.get_value
        values = [get(place, number) for place in range(self._result.ntuples)]
        return [None if value is None else load(value) for value in values]

    def value(self, place: int, number: int) -> Any:
        """One value of one row."""
        value = self._result.get_value(place, number)
        return None if value is None else self._loader(number)(value)

    def _loader(self, number: int) -> Callable[[bytes], Any]:
        form = Format(self._result.fformat(number))
        return self._transformer.get_loader(self._result.ftype(number), form).load


def column(rows: Sequence[Row], number: int) -> list[Any]:
    """All values of one column of any rows."""
    return rows.column(number) if isinstance(rows, LazyRows) else [row[number] for row in rows]


def value(rows: Sequence[Row], place: int, number: int) -> Any:
    """One value of any rows; the others of its row need not be decodable."""
    return rows.value(place, number) if isinstance(rows, LazyRows) else rows[place][number]
