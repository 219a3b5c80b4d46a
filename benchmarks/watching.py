"""Watches a product's jobs from outside, by primary key, so that watching costs next to nothing."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from benchmarks.programs import DriverError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.products import Tables
    from benchmarks.programs import Program

SECONDS_BETWEEN_LOOKS = 0.002
PATIENCE_SECONDS = 90.0


class Watch:
    """One connection that looks at one product's jobs."""

    def __init__(self, connection: psycopg.Connection[Any], tables: Tables) -> None:
        self._connection, self._tables = connection, tables
        by_id = f"select 1 from {tables.jobs} where id = %s and "
        self._is_waiting = by_id + f"({tables.waiting})"
        self._is_unfinished = by_id + f"({tables.unfinished})"
        self._any_unfinished = f"select 1 from {tables.jobs} where {tables.unfinished} limit 1"

    def close(self) -> None:
        self._connection.close()

    def empty(self) -> None:
        """Remove all jobs."""
        self._execute(f"truncate {', '.join(self._tables.emptied)} cascade")

    def fill(self, jobs: int, size: int) -> None:
        """Add jobs by the product's SQL statement for it, `size` at a time."""
        for first in range(0, jobs, size):
            self._execute(self._tables.fill, [first, min(first + size, jobs) - 1])

    def change(self, statement: str) -> None:
        """Change the jobs that were added, with this statement."""
        self._execute(statement)

    def settle_down(self) -> None:
        """Vacuum and checkpoint now, so that neither happens while a product is measured."""
        self._execute(f"vacuum (analyze) {self._tables.jobs}")
        self._execute("checkpoint")

    def nth(self, number: int) -> Any:
        """Return the id of the job at this place; 0 is the first, -1 the last."""
        order, offset = ("desc", -number - 1) if number < 0 else ("", number)
        found = self._execute(
            f"select id from {self._tables.jobs} order by {self._tables.order} {order} offset {offset} limit 1"
        )
        row = found.fetchone()
        if row is None:
            raise DriverError(f"{self._tables.jobs} has no job number {number}")
        return row[0]

    def until_taken(self, job: Any, programs: Sequence[Program] = ()) -> float:
        """Wait until a worker has taken this job, and return the time."""
        return self._until(self._is_waiting, [job], programs)

    def until_done(self, job: Any, programs: Sequence[Program] = (), *, patience: float = PATIENCE_SECONDS) -> float:
        return self._until(self._is_unfinished, [job], programs, patience=patience)

    def until_drained(self, last: Any, programs: Sequence[Program] = ()) -> float:
        """Wait until no job is left, and return the time. Looks for any job only once the last one is done."""
        self._until(self._is_unfinished, [last], programs)
        return self._until(self._any_unfinished, [], programs)

    def unfinished(self) -> int:
        row = self._execute(f"select count(*) from {self._tables.jobs} where {self._tables.unfinished}").fetchone()
        assert row is not None
        return int(row[0])

    def wal_position(self) -> int:
        row = self._execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return int(row[0])

    def _until(
        self, query: str, values: list[Any], programs: Sequence[Program], *, patience: float = PATIENCE_SECONDS
    ) -> float:
        """Wait until the query finds nothing any more, and return the time."""
        start = time.perf_counter()
        looks = 0
        while self._execute(query, values).fetchone() is not None:
            looks += 1
            if looks % 100 == 0:
                for program in programs:
                    program.check()
                if time.perf_counter() - start > patience:
                    raise TimeoutError(f"{self._tables.jobs}: nothing came of it in {patience:.0f} s")
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return time.perf_counter()

    def _execute(self, query: str, values: list[Any] | None = None) -> psycopg.Cursor[Any]:
        return self._connection.execute(sql.SQL(query), values)


@contextmanager
def watching(url: str, tables: Tables) -> Iterator[Watch]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield Watch(connection, tables)
