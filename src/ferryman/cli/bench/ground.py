"""The ground of a run: a schema of its own, which is gone afterwards, however the run ends."""

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


class NoGroundError(FerrymanError):
    """There is no place for a run here; nothing was changed."""


class GroundLeftError(FerrymanError):
    """The schema of the run could not be dropped, and must be dropped by hand."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a run takes place, before anything was made there."""

    database_url: str | None = field(repr=False)
    schema: str
    place: str
    """The database in words, without secrets."""
    server: Server


def bench_statement(name: str) -> Statement:
    """A statement of this package."""
    return load_statement("ferryman.cli.bench", name)


async def fetch(client: Client, call: Call) -> Sequence[Row]:
    """The rows of one statement, over the client's own connections."""
    return await TimedDatabase(client.pool, client.schema).fetch(call)


def look_around(database_url: str | None, schema: str | None) -> Ground:
    """See where we are; `NoGroundError` when this role may not make a schema here. Changes nothing."""
    name = schema or PREFIX + secrets.token_hex(4)
    return asyncio.run(_look_around(database_url, name))


async def _look_around(database_url: str | None, schema: str) -> Ground:
    async with Client(database_url, schema=schema, max_connections=1) as client:
        [(role, database, may_create)] = await fetch(client, Call(bench_statement("may_create_schemas")))
        if not may_create:
            raise NoGroundError(
                f"the role {role!r} may not create schemas in the database {database!r}, and a run takes place in a "
                f'schema of its own; nothing was changed. Let its owner run: grant create on database "{database}" to '
                f'"{role}"; or measure on another database of the same server with --database-url.'
            )
        return Ground(database_url, schema, str(client.address), await _server(client))


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
def schema_of(ground: Ground) -> Iterator[None]:
    """Make the schema, and drop it when the block ends, fails or is interrupted; also by SIGTERM and SIGHUP."""
    is_made = False
    with _like_ctrl_c():
        try:
            with _undisturbed():
                asyncio.run(_run(ground, "create_schema"))
                is_made = True
            yield
        finally:
            if is_made:
                with _undisturbed():
                    _drop(ground)


def _drop(ground: Ground) -> None:
    try:
        # A fresh connection: the run may have failed because others broke.
        asyncio.run(_run(ground, "drop_schema"))
    except FerrymanError as error:
        raise GroundLeftError(
            f"the schema {ground.schema} of this run could not be dropped ({error}). Nothing else was touched. Drop it "
            f'by hand: drop schema "{ground.schema}" cascade;'
        ) from error


async def _run(ground: Ground, name: str) -> None:
    async with Client(ground.database_url, schema=ground.schema, max_connections=1) as client:
        await fetch(client, Call(bench_statement(name)))


@contextmanager
def _like_ctrl_c() -> Iterator[None]:
    """Let the signals that end a program end it the way Ctrl-C does, so that there is time to drop the schema."""
    with _handling([number for number in _SIGNALS if number is not signal.SIGINT], _interrupt):
        yield


def _interrupt(*_: Any) -> None:
    signal.raise_signal(signal.SIGINT)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold signals back until the block is over, so that it is done or not done, never half."""
    came: list[int] = []
    with _handling(_SIGNALS, lambda number, _: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _handling(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    heeded = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]  # as nohup wants it
    before = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
