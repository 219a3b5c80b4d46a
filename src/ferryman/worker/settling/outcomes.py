"""Outcomes: how an attempt ended and what that means for its job, as values. Each job makes one, so they are cheap."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec.structs import replace

from ferryman.errors import InvalidPayloadError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from ferryman.worker.claiming.claims import Claim, Owner

MAX_ERROR_LENGTH = 16_000
_OURS = f"{Path(__file__).parents[2]}{os.sep}"


class Completed(msgspec.Struct, frozen=True, gc=False):
    """The job is done and will be deleted."""

    seconds: float


class ChildCrash(msgspec.Struct, frozen=True, gc=False):
    """The child process of an attempt died. Only the job itself can be to blame."""

    most: int | None
    """The job fails for good at this many crashes; None: never."""
    window: float
    """How long a crash counts, in seconds."""
    last_error: str
    """The error of the job if this crash was one too many."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed. Another one follows, unless this one is final or the last of the job: see `is_last`.

    `release_claims.sql` decides it for the row, by the newest count of attempts.
    """

    error: str
    delay: float | None = None
    """Seconds until the next attempt; None for the usual delay."""
    is_final: bool = False
    """True if no other attempt will be made, even if some are left."""
    payload_json: str | None = None
    """The payload of the next attempt, if it is another one."""
    crash: ChildCrash | None = None


class Snoozed(msgspec.Struct, frozen=True, gc=False):
    """The job wants to run later; the attempt does not count."""

    delay: float


class Interrupted(msgspec.Struct, frozen=True, gc=False):
    """The worker could not let the attempt end. It does not count, unless a hook wants that."""

    error: str
    delay: float | None
    uses_attempt: bool = False
    run_at: datetime | None = None
    """When to run it again, instead of after the delay."""
    attempts: int | None = None
    """The number of used attempts to write, instead of one less."""


class Unstarted(msgspec.Struct, frozen=True, gc=False):
    """The handler never began; the job goes back as if it had not been claimed."""

    delay: float | None = None
    """Seconds until it may be claimed again; None: it keeps its place."""


Ending: TypeAlias = Completed | Failed | Snoozed | Interrupted | Unstarted


class CompletedByHandler(msgspec.Struct, frozen=True, gc=False):
    """The handler has completed the job in its own transaction; whether that was committed, only the database knows."""

    seconds: float
    otherwise: Ending
    """The outcome if it was not committed."""


Outcome: TypeAlias = Ending | CompletedByHandler


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """A claim and how it ended."""

    claim: Claim
    outcome: Outcome
    is_uncertain: bool = False
    """True if it was sent once and the reply was lost: it may be written already."""
    was_lent: bool = False
    """True if a claim statement could not write it along; it is not lent again."""


class Written(msgspec.Struct, frozen=True):
    """The result of one write."""

    written: Sequence[Settlement]
    refused: Sequence[Settlement] = ()
    """Settlements whose claims were lost."""
    unclear: Sequence[Settlement] = ()
    """Settlements that were not written; the writer has yet to find out why."""
    blocked: Sequence[Settlement] = ()
    """Settlements to try again: other sessions hold their rows, or their state could not be read."""


def claimed_in_one_name(settlements: Sequence[Settlement]) -> int:
    """How many settlements, from the first on, can be written together: those of one worker id."""
    if not settlements:
        return 0
    name = settlements[0].claim.worker_id
    others = (place for place, settlement in enumerate(settlements) if settlement.claim.worker_id != name)
    return next(others, len(settlements))


def is_last(claim: Claim, outcome: Failed) -> bool:
    """True if no other attempt follows."""
    return outcome.is_final or claim.attempts >= claim.max_attempts


def as_written(settlements: Sequence[Settlement], written: Mapping[int, bool]) -> Sequence[Settlement]:
    """Add to settlements what only the database knows: whether failed jobs have an attempt left.

    A superseded job has none.
    """
    if not any(written.values()):
        return settlements
    return [
        replace(settlement, outcome=replace(settlement.outcome, is_final=True))
        if isinstance(settlement.outcome, Failed) and written.get(settlement.claim.job_id)
        else settlement
        for settlement in settlements
    ]


def unwritten(settlements: Sequence[Settlement], written: Collection[int]) -> list[Settlement]:
    """The settlements that were not written, given the ids of the jobs that were."""
    newest = _newest_claims(settlements)
    return [each for each in settlements if each.claim.job_id not in written or each.claim not in newest]


def was_written_before(settlement: Settlement, owners: Mapping[int, Owner]) -> bool:
    """True if its first try seems to have succeeded: the job is gone, or is not locked."""
    if not settlement.is_uncertain or settlement.claim.job_id not in owners:
        return settlement.is_uncertain
    locked_by, _ = owners[settlement.claim.job_id]
    return locked_by is None and not isinstance(settlement.outcome, Completed)


def _newest_claims(settlements: Sequence[Settlement]) -> set[Claim]:
    """The newest claim of each job. A job that was lost and claimed again has two."""
    newest: dict[int, Claim] = {}
    for settlement in settlements:
        claim = settlement.claim
        if claim.token >= newest.setdefault(claim.job_id, claim).token:
            newest[claim.job_id] = claim
    return {*newest.values()}


def storable_error(text: str) -> str:
    """The text without what PostgreSQL cannot store, and cut to a length that people still read."""
    cleaned = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if len(cleaned) <= MAX_ERROR_LENGTH:
        return cleaned
    return f"{cleaned[: MAX_ERROR_LENGTH // 2]}\n[…]\n{cleaned[-MAX_ERROR_LENGTH // 2 :]}"


def traceback_of(error: BaseException) -> str:
    """The traceback from the handler on, without Ferryman's own frames that lead to it.

    Empty for a payload that does not fit: no handler was called, and the message says what is wrong.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    if trace is None and isinstance(error, InvalidPayloadError) and error.__cause__ is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def describe(error: BaseException) -> str:
    """An exception as one line: its type and what it says. Never raises, even if the exception's own methods do."""
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001 - a broken __str__ must not hide the failure
        said = "(its message could not be read)"
    kind = type(error).__name__
    return storable_error(f"{kind}: {said}" if said else kind)
