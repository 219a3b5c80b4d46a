"""The driver for the physical limit: it claims and deletes jobs on one connection, and runs none of them."""

# ruff: noqa: ARG002 - it has no serial queues
# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from contract import main
from drive_ferryman import Ferryman
from psycopg import AsyncRawCursor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

JOBS = "graphile_worker._private_jobs"
STEADY = "set enable_seqscan = off; set jit = off; set plan_cache_mode = force_generic_plan"
CLAIM = f"""
    update {JOBS} set attempts = attempts + 1, locked_by = 'raw', locked_at = now()
    where ctid = any (array(
        select ctid from {JOBS} where is_available and run_at <= now()
        order by priority, run_at limit $1 for update skip locked
    ))
    returning id, payload::text
"""
DELETE = f"delete from {JOBS} where id = any($1)"
INSERT_ONE = f"""
    with added as (
        insert into {JOBS} (task_id, payload) select id, $1 from graphile_worker._private_tasks limit 1 returning id
    )
    select id, pg_notify('jobs:insert', '{{"count":1}}') from added
"""
INSERT_MANY = f"""
    with added as (
        insert into {JOBS} (task_id, payload)
        select tasks.id, payloads.one
        from (select id from graphile_worker._private_tasks limit 1) as tasks, unnest($1::json[]) as payloads (one)
        returning id
    ),
    announced as (
        select pg_notify('jobs:insert', '{{"count":1000}}') from (select from added limit 1) as any_job
    )
    select id from added, announced
"""


class Raw:
    async def prepare(self, url: str) -> None:
        await Ferryman().prepare(url)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("insert into graphile_worker._private_tasks (identifier) values ('bench')")

    async def work(self, url: str, settings: dict[str, Any]) -> None:
        async with await _connect(url) as connection:
            while True:
                found = await (await connection.execute(CLAIM, [settings["claim"]], prepare=True)).fetchall()
                if found:
                    await connection.execute(DELETE, [[row[0] for row in found]], prepare=True)
                else:
                    await asyncio.sleep(0.01)

    @asynccontextmanager
    async def adding(self, url: str) -> AsyncIterator[RawAdder]:
        async with await _connect(url) as connection:
            yield RawAdder(connection)


class RawAdder:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def add_one(self, payload: dict[str, Any], queue: str | None) -> None:
        await self._connection.execute(INSERT_ONE, [json.dumps(payload)], prepare=True)

    async def add_many(self, payloads: list[dict[str, Any]], queue: str | None) -> None:
        await self._connection.execute(INSERT_MANY, [[json.dumps(each) for each in payloads]], prepare=True)


async def _connect(url: str) -> psycopg.AsyncConnection[Any]:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, cursor_factory=AsyncRawCursor)
    await connection.execute(STEADY)
    return connection


if __name__ == "__main__":
    main(Raw())
