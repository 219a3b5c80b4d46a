"""The driver for Chancy, with its executor for coroutines; see `contract`."""

# ruff: noqa: ARG002 - it has no serial queues
# mypy: disable-error-code="import-not-found,no-any-unimported,untyped-decorator,misc"
from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from chancy import Chancy, Queue, Worker, job
from contract import main, trivial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@job()
async def bench(**payload: Any) -> None:
    await trivial(payload)


class ChancyDriver:
    async def prepare(self, url: str) -> None:
        async with Chancy(url) as chancy:
            await chancy.migrate()

    async def work(self, url: str, settings: dict[str, Any]) -> None:
        queue = Queue(
            name="default",
            concurrency=settings["concurrency"],
            executor=Chancy.Executor.Async,
            **{name: settings[name] for name in ("eager_polling", "polling_interval") if name in settings},
        )
        async with Chancy(url) as chancy:
            await chancy.declare(queue, upsert=True)
            async with Worker(chancy) as worker:
                await worker.wait_for_shutdown()

    @asynccontextmanager
    async def adding(self, url: str) -> AsyncIterator[ChancyAdder]:
        async with Chancy(url, max_connection_pool_size=1) as chancy:
            yield ChancyAdder(chancy)


class ChancyAdder:
    def __init__(self, chancy: Any) -> None:
        self._chancy = chancy

    async def add_one(self, payload: dict[str, Any], queue: str | None) -> None:
        await self._chancy.push(bench.job.with_kwargs(**payload))

    async def add_many(self, payloads: list[dict[str, Any]], queue: str | None) -> None:
        jobs = [bench.job.with_kwargs(**payload) for payload in payloads]
        async for _ in self._chancy.push_many(jobs, batch_size=len(jobs)):
            pass


if __name__ == "__main__":
    main(ChancyDriver())
