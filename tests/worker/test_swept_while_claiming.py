"""A worker that is swept while a claim of it is under way holds nothing in its old name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferryman import Client, JobSpec, RawJobSpec
from ferryman.database.timed import TimedDatabase
from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.identity import Identity

if TYPE_CHECKING:
    import psycopg

    from ferryman.database.steps import Call

pytestmark = pytest.mark.claims


class SweptMeanwhile(TimedDatabase):
    """Others sweep the worker while the reply to its first claim is on the way."""

    def __init__(self, client: Client, identity: Identity) -> None:
        super().__init__(client.pool, client.schema)
        self._identity: Identity | None = identity

    async def fetch(self, call: Call) -> Any:
        rows = await super().fetch(call)
        if self._identity is not None and "wanted" in call.parameters:
            self._identity.renew()
            self._identity = None
        return rows


async def test_what_was_claimed_in_the_old_name_is_given_back_and_claimed_in_the_new_one(
    client: Client, connection: psycopg.Connection
) -> None:
    """Nobody registered stands behind the old name: after the threshold, such a job would be taken from its runner."""
    await client.add_raw_jobs([RawJobSpec("work", {}, JobSpec(queue_name=queue)) for queue in (None, "q")])
    identity = Identity()
    claimer = Claimer(SweptMeanwhile(client, identity), identity, ["work"], forbidden_flags=(), use_local_time=False)
    await claimer.register()
    old = identity.id

    claimed = await claimer.claim(5)

    assert identity.id != old
    assert [claim.worker_id for claim in claimed.claims] == [identity.id] * 2
    assert [claim.attempts for claim in claimed.claims] == [1, 1]
    held = connection.execute("select locked_by, attempts from graphile_worker._private_jobs").fetchall()
    assert held == [(identity.id, 1)] * 2
    [(queue_holder,)] = connection.execute("select locked_by from graphile_worker._private_job_queues").fetchall()
    assert queue_holder == identity.id
