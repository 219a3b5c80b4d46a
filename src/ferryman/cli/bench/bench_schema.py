"""Creates the schema in which `ferryman bench` works, and drops it however the run ends."""

from __future__ import annotations

import asyncio
import secrets
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ferryman import Client
from ferryman.cli.bench.figures import Server
from ferryman.database.statements import load_statement
from ferryman.database.steps import Call
from ferryman.database.timed import TimedDatabase
from ferryman.errors import FerrymanError
from ferryman.queries import checks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferryman.database.statements import Statement
    from ferryman.database.steps import Row

PREFIX = "ferryman_bench_"
_MAJOR = 10_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SchemaNotAllowedError(FerrymanError):
    """The role may not create a schema here; nothing was changed."""


class SchemaLeftError(FerrymanError):
    """The schema of the run could not be dropped. Drop it by hand."""


@dataclass(frozen=True, slots=True)
class BenchSchema:
    """The schema of a run, which need not exist yet, and its server.

    database: in words, without secrets
    """

    database_url: str | None = field(repr=False)
    name: str
    database: str
    server: Server


def bench_statement(name: str) -> Statement:
    """Return a statement of this package."""
    return load_statement("ferryman.cli.bench", name)


async def fetch(client: Client, call: Call) -> Sequence[Row]:
    """Return the rows of one statement, over the client's own connections."""
    return await TimedDatabase(client.pool, client.schema).fetch(call)


def find_schema(database_url: str | None, schema: str | None) -> BenchSchema:
    """Return the schema that a run can create. Raise if this role may not create one. Changes nothing."""
    name = schema or PREFIX + secrets.token_hex(4)
    return asyncio.run(_find_schema(database_url, name))


async def _find_schema(database_url: str | None, schema: str) -> BenchSchema:
    async with Client(database_url, schema=schema, max_connections=1) as client:
        [(role, database, may_create)] = await fetch(client, Call(bench_statement("may_create_schemas")))
        if not may_create:
            raise SchemaNotAllowedError(
                f"the role {role!r} may not create schemas in the database {database!r}, but a run needs one of its "
                f'own; nothing was changed. Let the owner run: grant create on database "{database}" to "{role}"; '
                f"or measure on another database of the same server with --database-url."
            )
        return BenchSchema(database_url, schema, str(client.address), await _server(client))


async def _server(client: Client) -> Server:
    [(version, _)] = await fetch(client, checks.server())
    [(used, allowed, used_here, allowed_here)] = await fetch(client, checks.connections())
    if allowed_here is not None and allowed_here - used_here < allowed - used:
        used, allowed = used_here, allowed_here
    async with client.pool.connection() as connection:
        greeted_by = connection.info.backend_pid
    [(served_by,)] = await fetch(client, checks.BACKEND_PID)
    return Server(
        version=f"{version // _MAJOR}.{version % _MAJOR}",
        connections_allowed=allowed,
        connections_used=used - 1,  # this one
        has_pooler=greeted_by != served_by,
    )


@contextmanager
def created(schema: BenchSchema) -> Iterator[None]:
    """Create the schema, and drop it when the block ends, fails or is interrupted, be it by SIGTERM or SIGHUP."""
    is_created = False
    with _like_ctrl_c():
        try:
            with _undisturbed():
                asyncio.run(_run(schema, "create_schema"))
                is_created = True
            yield
        finally:
            if is_created:
                with _undisturbed():
                    _drop(schema)


def _drop(schema: BenchSchema) -> None:
    try:
        # A fresh connection: the run may have failed because others broke.
        asyncio.run(_run(schema, "drop_schema"))
    except FerrymanError as error:
        raise SchemaLeftError(
            f"the schema {schema.name} of this run could not be dropped ({error}). Nothing else was touched. Drop it "
            f'by hand: drop schema "{schema.name}" cascade;'
        ) from error


async def _run(schema: BenchSchema, name: str) -> None:
    async with Client(schema.database_url, schema=schema.name, max_connections=1) as client:
        await fetch(client, Call(bench_statement(name)))


@contextmanager
def _like_ctrl_c() -> Iterator[None]:
    """Treat the signals that end a program as Ctrl-C, so that there is time to drop the schema."""
    with _handling([number for number in _SIGNALS if number is not signal.SIGINT], _interrupt):
        yield


def _interrupt(*_: Any) -> None:
    signal.raise_signal(signal.SIGINT)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay signals until the block is over, so that it is never left half done."""
    received: list[int] = []
    with _handling(_SIGNALS, lambda number, _: received.append(number)):
        yield
    if received:
        signal.raise_signal(received[0])


@contextmanager
def _handling(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
