"""How an attempt ended, and what that means for its job: decisions as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

MAX_ERROR_LENGTH = 16_000


@dataclass(frozen=True, slots=True)
class Completed:
    """The job is done and will be deleted."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed."""

    error: str
    delay: float | None = None
    """Seconds until the next attempt; None for the usual delay."""
    is_final: bool = False
    """Whether no other attempt will be made, even if some are left."""
    payload_json: str | None = None
    """What the next attempt shall work on instead."""


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The job wants to run later; the attempt does not count."""

    delay: float


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The worker could not let the attempt end. It does not count, unless a hook wants that."""

    error: str
    delay: float | None
    uses_attempt: bool = False
    run_at: datetime | None = None
    """When to run it again, instead of after the delay."""
    attempts: int | None = None
    """How many attempts it shall have had, instead of one less."""


@dataclass(frozen=True, slots=True)
class Unstarted:
    """The handler never began; the job goes back as if it had not been claimed."""


Ending: TypeAlias = Completed | Failed | Snoozed | Interrupted | Unstarted


@dataclass(frozen=True, slots=True)
class CompletedByHandler:
    """The handler has completed the job in its own transaction; whether that was committed, only the database knows."""

    seconds: float
    otherwise: Ending
    """What holds if it was not."""


Outcome: TypeAlias = Ending | CompletedByHandler


def storable_error(text: str) -> str:
    """The text without what PostgreSQL cannot store, and not longer than anybody will read."""
    cleaned = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if len(cleaned) <= MAX_ERROR_LENGTH:
        return cleaned
    return f"{cleaned[: MAX_ERROR_LENGTH // 2]}\n[…]\n{cleaned[-MAX_ERROR_LENGTH // 2 :]}"


def describe(error: BaseException) -> str:
    """An exception as one line: its type and what it says. Never raises, whatever the exception does."""
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001 - a broken __str__ must not hide the failure
        said = "(its message could not be read)"
    kind = type(error).__name__
    return storable_error(f"{kind}: {said}" if said else kind)
