"""`ferryman workers list`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferryman.queries.advisory_locks import SESSION_CLASS
from tests.support.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support.commands import Ran


def test_a_worker_whose_session_is_gone_is_not_called_alive(
    ferryman: Callable[..., Ran], connection: psycopg.Connection
) -> None:
    tables = Tables(connection)
    connection.execute("select pg_advisory_lock(%s, 7)", [SESSION_CLASS])
    tables.worker("ferryman-alive", "1 second", session_key=7)
    tables.worker("ferryman-killed", "1 second", session_key=8)
    tables.worker("ferryman-pooled", "1 second")
    tables.worker("ferryman-stale", "1 hour")

    lines = ferryman("workers", "list").out.splitlines()
    listed = ferryman("workers", "list", "--json").json["active"]

    cells = [re.split(r" {2,}", line) for line in lines[1:]]
    assert {worker: state for worker, state, *_ in cells} == {
        "ferryman-alive": "alive",
        "ferryman-killed": "session lost",
        "ferryman-pooled": "alive",
        "ferryman-stale": "stale",
    }
    assert [each["worker_id"] for each in listed if each["is_session_lost"]] == ["ferryman-killed"]
