"""A job whose key is used again, or removed, while it runs never runs again; any other job keeps its attempts.

Whoever wrote the functions that add and remove jobs, whatever the clocks say, and however the claim ends.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import psycopg
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ferryman import SweepStaleWorkersOptions, SyncClient
from ferryman.database.addresses import parse_address
from ferryman.database.blocking_sessions import SyncSession
from ferryman.database.pools import open_sync_pool
from ferryman.queries.claim import claim_jobs, read_clock, renew_claims, return_lost_claims
from ferryman.worker.claiming.claims import Claim
from ferryman.worker.settling.outcomes import Completed, Failed, Interrupted, Settlement, Snoozed, Unstarted
from ferryman.worker.settling.writers import completion, giving_back
from tests.support.tables import Tables
from tests.support.waiting import until_somebody_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ferryman.database.pools import SyncPool
    from ferryman.database.steps import Call, Row, Steps
    from ferryman.worker.settling.outcomes import Ending

WORKER = "ferryman-000000000000000001"
HOUR = 3600
# Other tests leave others in this database.
TASK = "select id from graphile_worker._private_tasks where identifier = 'task'"
PAST = datetime.now(UTC) - timedelta(hours=3)
LATER = datetime(2100, 1, 1, tzinfo=UTC)

Change = Literal["nothing", "replaced", "removed"]
SETTLED: dict[str, Ending] = {
    "completed": Completed(0.0),
    "failed": Failed("no"),
    "failed for good": Failed("no", is_final=True),
    "snoozed": Snoozed(0.0),
    "interrupted": Interrupted("shutdown", 0.0),
    "interrupted, told how often it ran": Interrupted("shutdown", None, run_at=PAST, attempts=0),
    "unstarted": Unstarted(),
}
ENDINGS = (*SETTLED, "swept", "swept by the function", "reply lost")
USES_THE_ATTEMPT = {"failed", "failed for good"}


@dataclass(frozen=True, kw_only=True)
class Past:
    """What happens to a job between its claim and the end of that claim."""

    change: Change
    ending: str
    skew: int = 0
    """How far the worker's clock, by which it claims, is ahead of the database's, in seconds."""
    is_keyed: bool = True
    is_producer_older: bool = False
    """Whether the transaction that takes the key over was begun before the claim."""
    renewals: tuple[bool, bool] = (False, False)
    """Whether the lock is renewed before that, and after."""


pasts = st.builds(
    Past,
    change=st.sampled_from(["nothing", "replaced", "removed"]),
    ending=st.sampled_from(ENDINGS),
    skew=st.sampled_from([0, 1, -1]) | st.integers(-HOUR, HOUR),
    is_keyed=st.booleans(),
    is_producer_older=st.booleans(),
    renewals=st.tuples(st.booleans(), st.booleans()),
)


class Stage:
    """A worker that claims one job, as far as the database can tell."""

    def __init__(
        self, client: SyncClient, pool: SyncPool, tables: Tables, producer: Tables, observer: psycopg.Connection
    ) -> None:
        self.client, self.pool, self.tables, self.producer, self.observer = client, pool, tables, producer, observer

    def claim(self, skew: int) -> Claim:
        [now] = [row["now"] for row in self.tables.query("select clock_timestamp() as now")]
        [task] = [row["id"] for row in self.tables.query(TASK)]
        call = claim_jobs(WORKER, [task], wanted=1, window=10, now=now + timedelta(seconds=skew), forbidden_flags=None)
        self.fetch(call)
        [held] = self.tables.query(
            "select id, extract(epoch from locked_at) * 1000000 as token from graphile_worker._private_jobs"
            " where locked_by = %s",
            WORKER,
        )
        return Claim(held["id"], task, "{}", None, int(held["token"]), WORKER, (), 0)

    def renew(self, claim: Claim) -> None:
        [[token]] = self.fetch(read_clock())
        [(_, result)] = self.fetch(renew_claims(WORKER, claim.keys, token))
        assert result == "renewed"
        claim.later_tokens = (*claim.later_tokens, token)

    def change(self, change: Change) -> None:
        match change:
            case "replaced":
                self.producer.add_job(job_key="k", run_at=LATER)
            case "removed":
                self.producer.remove_job("k")
        self.producer.connection.commit()

    def end(self, claim: Claim, ending: str) -> None:
        match ending:
            case "swept":
                self.client.sweep_stale_workers(
                    SweepStaleWorkersOptions(worker_ids=[WORKER], recovery_delay=timedelta())
                )
            case "swept by the function":
                self.tables.query("select graphile_worker.recover_dead_worker_jobs(array[%s])", WORKER)
            case "reply lost":
                self.fetch(return_lost_claims(WORKER, after=None, known=()))
            case _:
                settle = completion if ending == "completed" else giving_back
                self.fetch(settle([Settlement(claim, SETTLED[ending])]))

    def fetch(self, call: Call) -> list[Row]:
        def steps() -> Steps[list[Row]]:
            rows = yield call
            return [*rows]

        return SyncSession(lambda: self.pool, self.client.schema).run(steps())


@pytest.fixture(params=["ours", "0.17", "0.18", "rust"])
def stage(request: pytest.FixtureRequest, adopted_database: Callable[[str], str]) -> Iterator[Stage]:
    dsn = adopted_database(request.param)
    with (
        SyncClient(dsn) as client,
        closing(open_sync_pool(parse_address(dsn), size=1)) as pool,
        closing(psycopg.connect(dsn, autocommit=True)) as connection,
        closing(psycopg.connect(dsn)) as producer,
        closing(psycopg.connect(dsn, autocommit=True)) as observer,
    ):
        yield Stage(client, pool, Tables(connection), Tables(producer), observer)


def play(stage: Stage, past: Past) -> None:
    """One job, claimed by one worker, to the end of that claim and beyond."""
    stage.tables.query("delete from graphile_worker._private_jobs")
    is_keyed = past.is_keyed or past.change != "nothing"
    job = stage.tables.add_job(run_at=PAST, max_attempts=1, **({"job_key": "k"} if is_keyed else {}))
    if past.is_producer_older:
        stage.producer.query("select now()")
    claim = stage.claim(past.skew)
    assert claim.job_id == job["id"]

    for is_renewed, change in zip(past.renewals, (past.change, None), strict=True):
        if is_renewed:
            stage.renew(claim)
        if change is not None:
            stage.change(change)
    stage.end(claim, past.ending)

    found = {row["id"]: row for row in stage.tables.jobs()}
    left = found.pop(job["id"], None)
    assert [(row["key"], row["is_available"]) for row in found.values()] == [("k", True)] * (past.change == "replaced")
    if past.ending == "completed":
        assert left is None
        return
    assert left is not None
    assert (left["locked_by"], left["locked_at"]) == (None, None)
    comes_back = past.change == "nothing" and past.ending not in USES_THE_ATTEMPT
    assert (left["attempts"], left["is_available"]) == ((0, True) if comes_back else (1, False))

    # An operator who lets a job run again means it, and its next claim is a claim like any other.
    stage.tables.query("delete from graphile_worker._private_jobs where id <> %s", job["id"])
    stage.tables.reschedule_jobs(job["id"], attempts=0, run_at=PAST)
    stage.end(stage.claim(past.skew), "unstarted")
    again = stage.tables.job(job["id"])
    assert (again["attempts"], again["is_available"]) == (0, True)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(past=pasts)
@example(Past(change="nothing", ending="interrupted", skew=-1, is_keyed=False))
@example(Past(change="replaced", ending="swept", skew=1))
@example(Past(change="replaced", ending="interrupted", is_producer_older=True))
@example(Past(change="removed", ending="reply lost", is_producer_older=True, renewals=(False, True)))
def test_a_superseded_job_never_comes_back_and_any_other_does(stage: Stage, past: Past) -> None:
    event(f"{past.change}, {past.ending}")
    play(stage, past)


@pytest.mark.parametrize("is_keyed", [True, False])
@pytest.mark.parametrize("ending", ["interrupted", "swept", "swept by the function", "reply lost"])
def test_a_job_that_an_operator_fails_under_an_old_lock_does_not_come_back(
    stage: Stage, ending: str, is_keyed: bool
) -> None:
    """Graphile's function takes a lock of four hours for forgotten; its worker may still give the job back."""
    stage.tables.query("delete from graphile_worker._private_jobs")
    job = stage.tables.add_job(run_at=PAST - timedelta(hours=3), **({"job_key": "k"} if is_keyed else {}))
    claim = stage.claim(skew=-5 * HOUR)
    assert len(stage.tables.permanently_fail_jobs(job["id"])) == 1
    stage.end(claim, ending)
    failed = stage.tables.job(job["id"])
    assert (failed["locked_by"], failed["attempts"], failed["is_available"]) == (None, 25, False)


@pytest.mark.claims
@pytest.mark.parametrize("ending", ["interrupted", "unstarted", "swept by the function"])
def test_whoever_waits_for_the_row_of_a_job_that_is_being_replaced_sees_that_it_was(stage: Stage, ending: str) -> None:
    """A statement sees a row that it had to wait for as it is then, and all other tables as they were before."""
    stage.tables.query("delete from graphile_worker._private_jobs")
    old = stage.tables.add_job(job_key="k", run_at=PAST)
    claim = stage.claim(skew=0)
    stage.producer.add_job(job_key="k", run_at=LATER)
    with ThreadPoolExecutor(1) as threads:
        if ending == "swept by the function":
            waiting = threads.submit(stage.end, claim, ending)
        else:
            call = giving_back([Settlement(claim, SETTLED[ending])])
            waiting = threads.submit(stage.fetch, replace(call, parameters={**call.parameters, "patience": None}))
        try:
            until_somebody_waits(stage.observer)
        finally:
            stage.producer.connection.commit()
        waiting.result()
    job = stage.tables.job(old["id"])
    assert (job["locked_by"], job["attempts"], job["is_available"]) == (None, 25, False)
