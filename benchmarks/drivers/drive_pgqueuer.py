"""The driver for PgQueuer, on asyncpg; see `contract`. A payload is bytes, so the job itself decodes JSON."""

# ruff: noqa: ARG002 - it has no serial queues
# mypy: disable-error-code="import-not-found,no-any-unimported,untyped-decorator,misc"
from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
from contract import main, trivial
from pgqueuer import AsyncpgDriver, PgQueuer, Queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class PgQueuerDriver:
    async def prepare(self, url: str) -> None:
        connection = await asyncpg.connect(url)
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await queries.optimize_autovacuum()  # the first point of the checklist in its performance guide
        await connection.close()

    async def work(self, url: str, settings: dict[str, Any]) -> None:
        runs = [self._run(url, settings) for _ in range(settings["dequeuers"])]
        await asyncio.gather(*runs)

    async def _run(self, url: str, settings: dict[str, Any]) -> None:
        queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

        @queuer.entrypoint("bench")
        async def bench(job: Any) -> None:
            await trivial(json.loads(job.payload))

        await queuer.run(batch_size=settings["batch"])

    @asynccontextmanager
    async def adding(self, url: str) -> AsyncIterator[PgQueuerAdder]:
        connection = await asyncpg.connect(url)
        yield PgQueuerAdder(Queries(AsyncpgDriver(connection)))
        await connection.close()


class PgQueuerAdder:
    def __init__(self, queries: Any) -> None:
        self._queries = queries

    async def add_one(self, payload: dict[str, Any], queue: str | None) -> None:
        await self._queries.enqueue("bench", json.dumps(payload).encode())

    async def add_many(self, payloads: list[dict[str, Any]], queue: str | None) -> None:
        count = len(payloads)
        encoded = [json.dumps(payload).encode() for payload in payloads]
        await self._queries.enqueue(["bench"] * count, encoded, [0] * count)


if __name__ == "__main__":
    main(PgQueuerDriver())
