"""Plans that were made while the table looked empty must not read the whole backlog that came later.

After each vacuum of a drained queue PostgreSQL takes the table for empty, and a worker keeps its plans.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.plans.measuring import JOBS, Session, drain_and_vacuum, session

from ferryman.queries import working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ferryman.database.steps import Call

BACKLOG = 30_000
CLAIM = 24
MOST_BUFFERS_PER_JOB = 60
"""Measured: 12 to 20. Reading the backlog once would cost more than 20 per job of the backlog."""


@pytest.fixture
def drained(database: str) -> Iterator[Session]:
    """A session on a table that was drained and vacuumed."""
    with session(database) as opened:
        drain_and_vacuum(opened)
        yield opened


def _claim() -> Call:
    return working.claim_jobs("me", [1], wanted=CLAIM, window=136, now=None, forbidden_flags=None)


def _completing(rows: list[Any]) -> Call:
    return working.complete_claims("me", [(row[0], row[6], row[5] or 0) for row in rows])


def _failing(rows: list[Any]) -> Call:
    releases = [{"id": row[0], "token": row[6], "queue_id": row[5], "effect": "retry", "error": "no"} for row in rows]
    return working.release_claims("me", json.dumps(releases))


@pytest.mark.parametrize("settlement", [_completing, _failing])
def test_settling_reads_no_more_than_it_settles(drained: Session, settlement: Callable[[list[Any]], Call]) -> None:
    drained.execute(f"insert into {JOBS} (task_id) values (1)")
    drained.run(settlement(drained.run(_claim())))
    drained.execute(f"insert into {JOBS} (task_id) select 1 from generate_series(1, {BACKLOG})")
    rows = drained.run(_claim())

    buffers = drained.measure(settlement(rows)).buffers

    assert len(rows) == CLAIM
    assert buffers < CLAIM * MOST_BUFFERS_PER_JOB
