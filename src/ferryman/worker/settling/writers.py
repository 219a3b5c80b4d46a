"""What is sent to the database so that outcomes are written there."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.database.steps import Transaction
from ferryman.queries.settle import PATIENCE, complete_claims, lock_claims, release_claims
from ferryman.worker.settling.outcomes import Completed, CompletedByHandler, Failed, Interrupted, Snoozed, Unstarted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.database.steps import Call, Row, Steps
    from ferryman.worker.settling.outcomes import Crash, Ending, Settlement

_encoder = msgspec.json.Encoder()


def completion(settlements: Sequence[Settlement]) -> Call:
    """Delete finished jobs. All of them were claimed in one name."""
    claims = [settlement.claim.key for settlement in settlements]
    for settlement in settlements:
        if settlement.claim.later_tokens:
            claims += settlement.claim.keys[1:]
    return complete_claims(settlements[0].claim.worker_id, claims, patience=PATIENCE)


def giving_back(settlements: Sequence[Settlement]) -> Call:
    """Give jobs back that were not completed. All of them were claimed in one name."""
    releases = [_release(settlement, token) for settlement in settlements for _, token, _ in settlement.claim.keys]
    encoded = _encoder.encode(releases).decode()
    return release_claims(settlements[0].claim.worker_id, encoded, patience=PATIENCE)


def settling_what_is_free(
    settlements: Sequence[Settlement], settling: Callable[[Sequence[Settlement]], Call]
) -> Steps[tuple[Sequence[Row], Sequence[Settlement]]]:
    """Lock what nobody else has locked, and settle that: what comes back of the call, and what was left out."""
    yield Transaction()
    keys = [key for settlement in settlements for key in settlement.claim.keys]
    rows = yield lock_claims(settlements[0].claim.worker_id, keys)
    busy = {job_id for (job_id,) in rows}
    free = [settlement for settlement in settlements if settlement.claim.job_id not in busy]
    written: Sequence[Row] = ()
    if free:
        written = yield settling(free)
    return written, [settlement for settlement in settlements if settlement.claim.job_id in busy]


def _release(settlement: Settlement, token: int) -> dict[str, Any]:
    claim, outcome = settlement.claim, settlement.outcome
    ending = outcome.otherwise if isinstance(outcome, CompletedByHandler) else outcome
    return {"id": claim.job_id, "token": token, "queue_id": claim.queue_id, **_effect(ending)}


def _effect(outcome: Ending) -> dict[str, Any]:
    """What is sent. Plain values only: hooks and handlers may have given subclasses, which cannot be encoded."""
    match outcome:
        case Failed():
            effect = "fail" if outcome.is_final else "retry"
            return {
                "effect": effect, "error": outcome.error, "delay": outcome.delay, "payload": outcome.payload_json,
                "clears": outcome.crash is None, **_crash(outcome.crash),
            }  # fmt: skip
        case Snoozed():
            return {"effect": "return", "delay": outcome.delay, "clears": True}
        case Interrupted():
            effect = "retry" if outcome.uses_attempt else "return"
            return {
                "effect": effect, "error": outcome.error, "delay": outcome.delay,
                "run_at": None if outcome.run_at is None else outcome.run_at.astimezone(UTC).isoformat(),
                "attempts": None if outcome.attempts is None else int(outcome.attempts),
            }  # fmt: skip
        case Unstarted():
            return {"effect": "return", "delay": outcome.delay}
        case Completed():
            raise AssertionError("completions have a lane of their own")


def _crash(crash: Crash | None) -> dict[str, Any]:
    if crash is None:
        return {}
    return {"most_crashes": crash.most, "crash_window": crash.window, "last_error": crash.last_error}
