"""Plans that were made while the table looked empty must not read the whole backlog that came later.

After each vacuum of a drained queue PostgreSQL takes the table for empty, and a worker keeps its plans.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ferryman.queries.claim import claim_jobs
from ferryman.queries.settle import complete_claims, release_claims
from ferryman.worker.claiming.claims import claimed_from_rows
from tests.support.measuring import JOBS, Session, drain_and_vacuum, session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ferryman.database.steps import Call
    from ferryman.worker.claiming.claims import Claim

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


def _claims(session: Session) -> Sequence[Claim]:
    call = claim_jobs("me", [1], wanted=CLAIM, window=136, now=None, forbidden_flags=None)
    return claimed_from_rows(session.run(call), "me").claims


def _completing(claims: Sequence[Claim]) -> Call:
    return complete_claims("me", [claim.key for claim in claims])


def _failing(claims: Sequence[Claim]) -> Call:
    releases = [
        {"id": claim.job_id, "token": claim.token, "queue_id": claim.queue_id, "effect": "retry", "error": "no"}
        for claim in claims
    ]
    return release_claims("me", json.dumps(releases))


@pytest.mark.parametrize("settlement", [_completing, _failing])
def test_settling_reads_no_more_than_it_settles(
    drained: Session, settlement: Callable[[Sequence[Claim]], Call]
) -> None:
    drained.execute(f"insert into {JOBS} (task_id) values (1)")
    drained.run(settlement(_claims(drained)))
    drained.execute(f"insert into {JOBS} (task_id) select 1 from generate_series(1, {BACKLOG})")
    claims = _claims(drained)

    buffers = drained.measure(settlement(claims)).buffers

    assert len(claims) == CLAIM
    assert buffers < CLAIM * MOST_BUFFERS_PER_JOB
