"""Claimers without a worker around them."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from ferryman.worker.claiming.claimer import Claimer
from ferryman.worker.claiming.held_claims import HeldClaims
from ferryman.worker.claiming.lost_replies import LostReplies
from ferryman.worker.claiming.task_numbers import TaskNumbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.worker.claiming.claims import Claim
    from ferryman.worker.identity import Identity


@dataclass(frozen=True)
class Names:
    """A registry of tasks that have nothing but names."""

    names: Sequence[str]

    def find(self, identifier: str) -> str:
        return identifier


@dataclass
class Alone:
    """A claimer and the parts that it needs."""

    claimer: Claimer
    tasks: TaskNumbers
    lost: LostReplies


def holding(claims: Callable[[], Sequence[Claim]]) -> HeldClaims:
    """The claims of a worker that holds these."""
    held = HeldClaims()
    held.include(_Holder(claims))
    return held


def claimer_alone(
    database: Any,
    identity: Identity,
    names: Sequence[str],
    *,
    held: Callable[[], Sequence[Claim]] = tuple,
    clock: Callable[[], float] = monotonic,
    **given: Any,
) -> Alone:
    """A claimer of tasks of these names, for a worker that holds these claims."""
    tasks: Any = TaskNumbers(database, Names(names), clock=clock)  # type: ignore[arg-type]
    lost = LostReplies(database, identity, holding(held))
    options = {"forbidden_flags": (), "use_local_time": False, **given}
    return Alone(Claimer(database, identity, tasks, lost, **options), tasks, lost)


async def registered(database: Any, identity: Identity, names: Sequence[str], **given: Any) -> Claimer:
    """The same, when the database knows its tasks."""
    alone = claimer_alone(database, identity, names, **given)
    await alone.tasks.register()
    return alone.claimer


class _Holder:
    def __init__(self, claims: Callable[[], Sequence[Claim]]) -> None:
        self._claims = claims

    @property
    def held_claims(self) -> Sequence[Claim]:
        return self._claims()
