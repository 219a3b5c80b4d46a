"""Defines what every driver does, and holds the code that all drivers in Python share. Standard library only.

A driver is a program, `driver ROLE SETTINGS`, where SETTINGS is a JSON object and DATABASE_URL says where. It answers
each line on its standard input with one line of JSON, and ends with its input.

    prepare     make the schema, and end
    work        load everything, say {"ready": true}, wait for a line, then run jobs; a further line asks for
                {"delays": [...]}, the milliseconds from adding to starting of the jobs that carried the time in `t`
    add         connect once, say {"ready": true}; each line is an order, answered by {"seconds": ...}:
                {"count": jobs, "size": jobs per call (0: the call for a single job), "queue": serial queue or null,
                 "rate": jobs per second or null, "ms": how long each shall sleep}

A job sleeps for the `ms` in its payload and notes the delay since the `t` in its payload. Without, it does nothing.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

delays: list[float] = []


class Adder(Protocol):
    """Adds jobs by the calls that the product's users would use."""

    async def add_one(self, payload: dict[str, Any], queue: str | None) -> None: ...

    async def add_many(self, payloads: list[dict[str, Any]], queue: str | None) -> None: ...


class Driver(Protocol):
    """The functions that a driver has to provide for its product."""

    async def prepare(self, url: str) -> None: ...

    async def work(self, url: str, settings: dict[str, Any]) -> None:
        """Run jobs until cancelled."""

    def adding(self, url: str) -> AbstractAsyncContextManager[Adder]: ...


async def trivial(payload: dict[str, Any]) -> None:
    """Do the work of a job: sleep if asked to, and note the delay."""
    if "t" in payload:
        delays.append(time.time() * 1000 - payload["t"])
    if payload.get("ms"):
        await asyncio.sleep(payload["ms"] / 1000)


def main(driver: Driver) -> None:
    """Play the role that the command line asks for."""
    role, settings = sys.argv[1], json.loads(sys.argv[2])
    url = os.environ["DATABASE_URL"]
    if settings.get("uvloop") and find_spec("uvloop"):
        import uvloop  # noqa: PLC0415 - only some environments have it

        uvloop.run(_play(driver, role, url, settings))
    else:
        asyncio.run(_play(driver, role, url, settings))


async def _play(driver: Driver, role: str, url: str, settings: dict[str, Any]) -> None:
    if role == "prepare":
        await driver.prepare(url)
    elif role == "work":
        await _work(driver, url, settings)
    else:
        await _add(driver, url)


async def _work(driver: Driver, url: str, settings: dict[str, Any]) -> None:
    lines = await _lines()
    _say({"ready": True})
    if not await lines.readline():
        return
    working = asyncio.create_task(driver.work(url, settings))
    reporting = asyncio.create_task(_report(lines))
    await asyncio.wait({working, reporting}, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        working.result()
    # What was measured is measured: nobody waits for an orderly end.
    os._exit(0)


async def _report(lines: asyncio.StreamReader) -> None:
    while await lines.readline():
        _say({"delays": delays})
        delays.clear()


async def _add(driver: Driver, url: str) -> None:
    lines = await _lines()
    async with driver.adding(url) as adder:
        _say({"ready": True})
        while line := await lines.readline():
            start = time.perf_counter()
            await _add_as_ordered(adder, json.loads(line), start)
            _say({"seconds": time.perf_counter() - start})


async def _add_as_ordered(adder: Adder, order: dict[str, Any], start: float) -> None:
    count, size, queue, rate = order["count"], order.get("size"), order.get("queue"), order.get("rate")
    if size:
        for first in range(0, count, size):
            await adder.add_many([{"n": number} for number in range(first, min(first + size, count))], queue)
        return
    for number in range(count):
        payload = {"n": number} | ({"ms": order["ms"]} if order.get("ms") else {})
        if rate:
            await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
            payload["t"] = time.time() * 1000
        await adder.add_one(payload, queue)


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def _say(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)
