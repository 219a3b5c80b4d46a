"""Outcomes of some claims can be written by writers of their own, and parts can hear of what was settled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ferryman.worker.claiming.claims import Claim
from ferryman.worker.settling.outcomes import Completed, Failed, Outcome, Settlement, Written
from ferryman.worker.settling.settler import Settler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


class Database:
    """Says that all was written."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    async def fetch(self, call: Any) -> list[tuple[Any, ...]]:
        self.statements.append(call.statement.name)
        return [(None,)] if "complete" in call.statement.name else [(number, False) for number in range(100)]


class Noting:
    """A writer that notes what it gets, and refuses what it is told to."""

    duty = "noting"

    def __init__(self, *refused: int) -> None:
        self.got: list[int] = []
        self._refused = refused

    async def write(self, settlements: Sequence[Settlement], *, skips: bool) -> Written:
        del skips
        self.got += [each.claim.job_id for each in settlements]
        return Written([], unclear=settlements)

    async def explain(self, unclear: Sequence[Settlement]) -> Written:
        refused = [each for each in unclear if each.claim.job_id in self._refused]
        return Written([each for each in unclear if each not in refused], refused)


class Route:
    """Takes claims of one task."""

    def __init__(self, task_id: int, writers: dict[type[Outcome], Any]) -> None:
        self._task_id = task_id
        self.writers = writers

    def takes(self, claim: Claim) -> bool:
        return claim.task_id == self._task_id


class Follower:
    """Notes what it hears of, and when."""

    def __init__(self, told: list[tuple[str, str, int]], name: str) -> None:
        self._told = told
        self._name = name

    def settled(self, written: Sequence[Settlement], refused: Sequence[Settlement]) -> None:
        self._told += [(self._name, "written", each.claim.job_id) for each in written]
        self._told += [(self._name, "refused", each.claim.job_id) for each in refused]


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def writer() -> Noting:
    return Noting(4)


@pytest.fixture
async def settler(database: Any, writer: Noting) -> AsyncIterator[Settler]:
    made = Settler(database, lends=True)
    made.add_route(Route(7, {Completed: writer}))
    made.add_route(Route(7, {Completed: Noting(), Failed: Noting()}))
    writing = asyncio.create_task(made.run())
    yield made
    writing.cancel()
    await asyncio.wait([writing])


def claim_of(job_id: int, task_id: int = 7) -> Claim:
    return Claim(job_id, task_id, "{}", None, 1, "worker", (), 0)


async def test_outcomes_of_a_route_go_to_its_writers_and_all_others_the_plain_way(
    settler: Settler, database: Database, writer: Noting
) -> None:
    settler.settle(claim_of(1), Completed(0.0))
    settler.settle(claim_of(2), Failed("no"))
    settler.settle(claim_of(3, task_id=8), Completed(0.0))
    assert settler.unsettled == 3
    assert {claim.job_id for claim in settler.held_claims} == {1, 2, 3}
    await settler.flush()
    assert writer.got == [1]
    assert sorted(database.statements) == ["complete_claims", "release_claims"]
    assert settler.held_claims == []


async def test_what_takes_a_route_is_not_lent_to_claims(settler: Settler, writer: Noting) -> None:
    settler.settle(claim_of(1), Completed(0.0))
    settler.settle(claim_of(3, task_id=8), Completed(0.0))
    with settler.lend("worker") as loan:
        assert loan.keys == [(3, 1)]
        loan.completed(None)
    await settler.flush()
    assert writer.got == [1]


async def test_followers_hear_of_each_settlement_in_the_order_of_their_registration(settler: Settler) -> None:
    told: list[tuple[str, str, int]] = []
    settler.tell(Follower(told, "first"), Follower(told, "second"))
    settler.settle(claim_of(1), Completed(0.0))
    settler.settle(claim_of(4), Completed(0.0))
    await settler.flush()
    first = [("first", "written", 1), ("first", "refused", 4)]
    assert told == [*first, *(("second", what, job_id) for _, what, job_id in first)]


async def test_a_block_that_ends_with_an_error_gives_its_loan_back_in_doubt(database: Any, settler: Settler) -> None:
    settler.settle(claim_of(3, task_id=8), Completed(0.0))
    with pytest.raises(RuntimeError), settler.lend("worker") as loan:
        assert loan.keys == [(3, 1)]
        raise RuntimeError
    with settler.lend("worker") as again:
        assert again.keys == [], "what is in doubt is not lent again"
    await settler.flush()
    assert database.statements == ["complete_claims"]
