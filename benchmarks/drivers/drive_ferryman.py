"""The driver for Ferryman; see `contract`."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from contract import main, trivial

from ferryman import App, JobSpec, LocalQueueConfig, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ferryman import Client


class Ferryman:
    def _app(self, url: str, *, tracing: bool = True) -> App:
        app = App(url, tracing=tracing)

        @app.task(identifier="bench")
        async def bench(n: int, t: float | None = None, ms: int = 0) -> None:  # noqa: ARG001 - all payloads have it
            if t is not None:
                await trivial({"t": t, "ms": ms})

        self.task = bench
        return app

    async def prepare(self, url: str) -> None:
        async with self._app(url).client() as client:
            await client.migrate()

    async def work(self, url: str, settings: dict[str, Any]) -> None:
        if tracing := settings.get("tracing"):
            _set_up_tracing(tracing)
        options: dict[str, Any] = {"concurrency": settings["concurrency"]}
        if size := settings.get("local_queue"):
            options["local_queue"] = LocalQueueConfig(size=size)
        if (delay := settings.get("batch_delay")) is not None:
            options["complete_job_batch_delay"] = timedelta(milliseconds=delay)
        app = self._app(url, tracing=settings.get("tracing") != "App(tracing=False)")
        await Worker(app, **options).run()

    @asynccontextmanager
    async def adding(self, url: str) -> AsyncIterator[FerrymanAdder]:
        app = self._app(url)
        async with app.client(max_connections=1) as client:
            yield FerrymanAdder(client, self.task)


class FerrymanAdder:
    def __init__(self, client: Client, task: Any) -> None:
        self._client, self._task = client, task

    async def add_one(self, payload: dict[str, Any], queue: str | None) -> None:
        await self._client.add_job(self._task.job(**payload), JobSpec(queue_name=queue))

    async def add_many(self, payloads: list[dict[str, Any]], queue: str | None) -> None:
        spec = JobSpec(queue_name=queue)
        await self._client.add_jobs([(self._task.job(**payload), spec) for payload in payloads])


def _set_up_tracing(case: str) -> None:
    """Set OpenTelemetry up for one case of benchmarks/parts/tracing.py."""
    if case in {"no trace in the payload", "not loaded"}:
        return
    from opentelemetry import trace  # noqa: PLC0415 - loading it is what is measured

    if case == "a provider without spans":
        trace.set_tracer_provider(trace.NoOpTracerProvider())
    if not case.startswith("SDK"):
        return
    from opentelemetry.sdk.trace import TracerProvider, sampling  # noqa: PLC0415

    sampler = sampling.ALWAYS_ON if "every" in case else sampling.ALWAYS_OFF
    trace.set_tracer_provider(TracerProvider(sampler=sampler))


if __name__ == "__main__":
    main(Ferryman())
