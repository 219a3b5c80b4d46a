"""The driver for Oban for Python; see `contract`."""

# ruff: noqa: ARG002 - it has no serial queues
# mypy: disable-error-code="import-not-found,no-any-unimported,untyped-decorator,misc,attr-defined"
from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from contract import main, trivial
from oban import Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@worker(queue="default")
class Bench:
    async def process(self, job: Any) -> None:
        await trivial(job.args)


class ObanDriver:
    async def prepare(self, url: str) -> None:
        async with AsyncConnectionPool(url) as pool:
            await install(pool)

    async def work(self, url: str, settings: dict[str, Any]) -> None:
        async with AsyncConnectionPool(url, min_size=1, max_size=10) as pool:
            oban = Oban(pool=pool, queues={"default": settings["concurrency"]})
            await oban.start()
            await asyncio.Event().wait()

    @asynccontextmanager
    async def adding(self, url: str) -> AsyncIterator[ObanAdder]:
        async with AsyncConnectionPool(url, min_size=1, max_size=1) as pool:
            yield ObanAdder(Oban(pool=pool))


class ObanAdder:
    def __init__(self, oban: Any) -> None:
        self._oban = oban

    async def add_one(self, payload: dict[str, Any], queue: str | None) -> None:
        await self._oban.enqueue(Bench.new(payload))

    async def add_many(self, payloads: list[dict[str, Any]], queue: str | None) -> None:
        await self._oban.enqueue_many([Bench.new(payload) for payload in payloads])


if __name__ == "__main__":
    main(ObanDriver())
