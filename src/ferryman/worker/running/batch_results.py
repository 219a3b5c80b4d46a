"""Batch tasks: one job, many items, some of which may fail.

A handler of a batch task returns None when all items are done, or raises when all have failed, or returns a list with
one entry per item: None if it is done, an exception if it failed. `BatchResult` says the same by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.worker.settling.outcomes import Completed, Ending, Failed, describe, storable_error

if TYPE_CHECKING:
    from collections.abc import Sequence

_raw_items = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch job: which items are done, and which failed."""

    error: BaseException | str | None = None
    items: Sequence[BaseException | str | None] | None = None

    @classmethod
    def complete(cls) -> BatchResult:
        """Return the result of a job whose items are all done."""
        return cls()

    @classmethod
    def fail_all(cls, error: BaseException | str) -> BatchResult:
        """Return the result of a job whose items all failed; all will be retried."""
        return cls(error=error)

    @classmethod
    def of_items(cls, results: Sequence[BaseException | str | None]) -> BatchResult:
        """Return a result with one entry per item: None if it is done, an error if it is to be retried."""
        return cls(items=results)


def batch_outcome(payload_json: str, result: Any, seconds: float) -> Ending:
    """The outcome that a batch handler's result means. Failed items become the payload of the next attempt."""
    if not payload_json.lstrip().startswith("["):
        return Failed("batch job payload must be a JSON array")
    if isinstance(result, BatchResult):
        if result.error is not None:
            return Failed(_error(result.error))
        result = result.items
    if result is None:
        return Completed(seconds)
    if not isinstance(result, (list, tuple)):
        return Failed(f"batch handler returned {type(result).__name__}; expected None, a list or a BatchResult")
    return _item_outcome(payload_json, result, seconds)


def _item_outcome(payload_json: str, results: Sequence[Any], seconds: float) -> Ending:
    # The items as they were stored, not as the handler saw them: what failed goes back unchanged.
    items = [bytes(item).decode() for item in _raw_items.decode(payload_json)]
    if len(items) != len(results):
        return Failed(f"batch handler returned {len(results)} results for {len(items)} payload items")
    failed = [(place, result) for place, result in enumerate(results) if result is not None]
    for place, result in failed:
        if not isinstance(result, (BaseException, str)):
            # False may mean that it failed, and 17 that it is done: to guess would lose items.
            kind = type(result).__name__
            return Failed(f"batch handler returned {kind} for item {place}; expected None if it is done, or an error")
    if not failed:
        return Completed(seconds)
    listed = ", ".join(f"{place}: {_error(result)}" for place, result in failed)
    left = f"[{','.join(items[place] for place, _ in failed)}]"
    return Failed(storable_error(f"{len(failed)} batch item(s) failed: {listed}"), payload_json=left)


def _error(error: BaseException | str) -> str:
    return describe(error) if isinstance(error, BaseException) else storable_error(error)
