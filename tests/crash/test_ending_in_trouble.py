"""A worker that is told to end while its database is away ends all the same, in time and in order."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.crash.test_bad_networks import proxy
from tests.support.network import Fate, Proxy
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.crash_site import CrashSite

pytestmark = pytest.mark.program

__all__ = ["proxy"]

FOR_EVER = 3600
"""Seconds that a worker has for an answer: whoever waited for it to be over would not end within this test."""


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.SWALLOWED])
async def test_a_worker_that_cannot_reconnect_ends_when_told_to(site: CrashSite, proxy: Proxy, fate: Fate) -> None:
    worker = site.start(proxy.dsn, statement_seconds=FOR_EVER, connect_seconds=FOR_EVER)
    await worker.ready()
    proxy.new_connections = fate
    proxy.reset()
    await until(lambda: worker.logged("duty_failed"), "the worker is in trouble")

    assert await worker.end_in_order() == 0


@pytest.mark.parametrize("fate", [Fate.SWALLOWED, Fate.SWALLOWED_AFTER_LOGIN])
async def test_a_worker_that_cannot_start_ends_when_told_to(site: CrashSite, proxy: Proxy, fate: Fate) -> None:
    proxy.new_connections = fate
    worker = site.start(proxy.dsn, statement_seconds=FOR_EVER, connect_seconds=FOR_EVER)
    await until(lambda: proxy.refused > 0, "the worker tries to connect")

    worker.signal(signal.SIGTERM)

    await worker.died()
