"""The driver for procrastinate; see `contract`. A serial queue is what it calls a lock."""

# mypy: disable-error-code="import-not-found,no-any-unimported,untyped-decorator,misc"
from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from contract import main, trivial
from procrastinate import App, PsycopgConnector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Procrastinate:
    def _app(self, url: str, connections: int) -> Any:
        app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=connections))

        @app.task(name="bench")
        async def bench(**payload: Any) -> None:
            await trivial(payload)

        self.task = bench
        return app

    async def prepare(self, url: str) -> None:
        async with self._app(url, 2).open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def work(self, url: str, settings: dict[str, Any]) -> None:
        async with self._app(url, settings["connections"]).open_async() as app:
            await app.run_worker_async(concurrency=settings["concurrency"], delete_jobs=settings.get("delete_jobs"))

    @asynccontextmanager
    async def adding(self, url: str) -> AsyncIterator[ProcrastinateAdder]:
        async with self._app(url, 1).open_async():
            yield ProcrastinateAdder(self.task)


class ProcrastinateAdder:
    def __init__(self, task: Any) -> None:
        self._task = task

    async def add_one(self, payload: dict[str, Any], queue: str | None) -> None:
        await self._task.configure(lock=queue).defer_async(**payload)

    async def add_many(self, payloads: list[dict[str, Any]], queue: str | None) -> None:
        await self._task.configure(lock=queue).batch_defer_async(*payloads)


if __name__ == "__main__":
    main(Procrastinate())
