"""Carry out the steps of `ferryman.schema` without the rest of the client."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from ferryman.database.addresses import parse_address
from ferryman.database.blocking_sessions import SyncSession
from ferryman.database.identifiers import SchemaName
from ferryman.database.pools import open_sync_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferryman.database.steps import Step, Steps

R = TypeVar("R")

DEFAULT_SCHEMA = "graphile_worker"


def carry_out(dsn: str, operation: Callable[[SchemaName], Steps[R]], schema: str = DEFAULT_SCHEMA) -> R:
    """Run one operation on a connection of its own."""
    name = SchemaName(schema)
    with closing(open_sync_pool(parse_address(dsn), size=1)) as pool:
        return SyncSession(lambda: pool, name).run(operation(name))


def watched(steps: Steps[R], watch: Callable[[Step], object]) -> Steps[R]:
    """The same steps, each shown to `watch` before it is taken."""
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as done:
            return done.value
        watch(step)
        answer = yield step
