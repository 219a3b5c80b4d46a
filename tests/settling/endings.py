"""How attempts end, and what each ending promises to leave behind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ferryman import Fail, Retry, Snooze
from ferryman.retries import FixedDelay

if TYPE_CHECKING:
    from collections.abc import Callable

RETRY_POLICY = FixedDelay(1000)
INTERRUPTED_DELAY = timedelta(seconds=4000)
INTERRUPTED = "Job recovered after worker interruption"
MAX_ATTEMPTS = 25


@dataclass(frozen=True)
class Ending:
    """How an attempt ends, and what its job is like afterwards.

    error: makes what the handler raises
    completes: the job is gone afterwards
    attempts: how many count
    last_error: the first line of it
    delay: seconds until the job is due; None: `run_at` stays as it was
    payload: what the payload has that it did not have before
    events: the hooks that hear of it
    last_events: the same for a job that has no attempt left
    at_shutdown: the worker is stopped, and that ends the attempt
    in_transaction: what the handler does with `ctx.complete_in`
    """

    name: str
    error: Callable[[], Exception] | None = None
    completes: bool = False
    attempts: int = 0
    last_error: str | None = None
    delay: float | None = None
    payload: tuple[tuple[str, str], ...] = ()
    events: tuple[str, ...] = ()
    last_events: tuple[str, ...] | None = None
    at_shutdown: bool = False
    in_transaction: str | None = None

    def __str__(self) -> str:
        return self.name


COMPLETED = Ending("completed", completes=True, events=("JobComplete",))
FAILED = Ending(
    "failed",
    lambda: ValueError("no"),
    attempts=1,
    last_error="ValueError: no",
    delay=1000,
    events=("JobFail",),
    last_events=("JobPermanentlyFail",),
)
FAILED_FOR_GOOD = Ending(
    "failed for good", lambda: Fail("no"), attempts=MAX_ATTEMPTS, last_error="Fail: no", events=("JobPermanentlyFail",)
)
RETRIED = Ending(
    "retried",
    lambda: Retry("no", after=timedelta(seconds=2000), payload={"cell": "the same", "half": "done"}),
    attempts=1,
    last_error="Retry: no",
    delay=2000,
    payload=(("cell", "the same"), ("half", "done")),
    events=("JobFail",),
    last_events=("JobPermanentlyFail",),
)
SNOOZED = Ending("snoozed", lambda: Snooze(timedelta(seconds=3000)), delay=3000)
INTERRUPTION = Ending("interrupted", last_error=INTERRUPTED, delay=4000, events=("JobInterrupted",), at_shutdown=True)
UNSTARTED = Ending("unstarted", at_shutdown=True)
COMMITTED = Ending("completed by its handler", completes=True, events=("JobComplete",), in_transaction="commit")
ROLLED_BACK = Ending(
    "completed by its handler in vain",
    lambda: ValueError("no"),
    attempts=1,
    last_error="ValueError: no",
    delay=1000,
    events=("JobFail",),
    last_events=("JobPermanentlyFail",),
    in_transaction="rollback",
)

ENDINGS = (
    COMPLETED, FAILED, FAILED_FOR_GOOD, RETRIED, SNOOZED, INTERRUPTION, UNSTARTED, COMMITTED, ROLLED_BACK,
)  # fmt: skip
