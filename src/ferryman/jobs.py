"""Jobs as plain frozen values, checked when they are made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from ferryman.errors import InvalidJobError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_IDENTIFIER_LENGTH = 128
MAX_QUEUE_NAME_LENGTH = 128
MAX_KEY_LENGTH = 512
SMALLINT_MIN, SMALLINT_MAX = -32768, 32767


class JobKeyMode(Enum):
    """What happens when a job with the same key already exists."""

    REPLACE = "replace"
    """Overwrite the waiting job: payload, time, queue, everything. Attempts start again."""
    PRESERVE_RUN_AT = "preserve_run_at"
    """Like `REPLACE`, but a job that was never attempted keeps its `run_at`."""
    UNSAFE_DEDUPE = "unsafe_dedupe"
    """Leave the existing job as it is, even when it is running or has failed for good."""


class JobState(Enum):
    """Where a job stands; each job is in exactly one state."""

    READY = "ready"
    """Never attempted and due."""
    SCHEDULED = "scheduled"
    """Never attempted and not due yet."""
    RUNNING = "running"
    """Claimed by a worker."""
    RETRYING = "retrying"
    """Attempted before, and waiting for its next attempt."""
    FAILED = "failed"
    """Out of attempts. It stays in the table until somebody reschedules or deletes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """How to schedule a job. Whatever is left out is decided by the task, then by the database.

    queue_name: jobs with the same queue name run one at a time
    run_at: not before this time, which must have a time zone (default: now)
    max_attempts: attempts before the job fails for good, 1 to 32,767 (default: 25)
    job_key: 1 to 512 characters; at most one waiting job has a given key
    job_key_mode: what to do when the key is taken (default: `JobKeyMode.REPLACE`)
    priority: -32,768 to 32,767, smaller runs first (default: 0)
    flags: labels that workers may be told to leave alone
    """

    queue_name: str | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    job_key: str | None = None
    job_key_mode: JobKeyMode | None = None
    priority: int | None = None
    flags: Iterable[str] | None = None

    def __post_init__(self) -> None:
        if self.queue_name is not None:
            check_text("queue_name", self.queue_name, MAX_QUEUE_NAME_LENGTH)
        if self.job_key is not None:
            check_text("job_key", self.job_key, MAX_KEY_LENGTH)
        check_time("run_at", self.run_at)
        check_integer("max_attempts", self.max_attempts, 1, SMALLINT_MAX)
        check_integer("priority", self.priority, SMALLINT_MIN, SMALLINT_MAX)
        if self.job_key_mode is not None:
            object.__setattr__(self, "job_key_mode", _key_mode(self.job_key_mode))
        if self.flags is not None:
            object.__setattr__(self, "flags", _checked_flags(self.flags))

    def over(self, defaults: JobSpec) -> JobSpec:
        """These settings, with `defaults` where this spec says nothing."""
        missing = {
            item.name: getattr(defaults, item.name)
            for item in fields(self)
            if getattr(self, item.name) is None
        }
        return replace(self, **missing)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is ready to be added: what `Task.job(...)` returns. Its payload is JSON text, checked."""

    identifier: str
    payload_json: str = field(repr=False)
    spec: JobSpec = field(default_factory=JobSpec)

    def __post_init__(self) -> None:
        check_identifier(self.identifier)


@dataclass(frozen=True, slots=True)
class RawJobSpec:
    """A job for `add_raw_jobs`: any task identifier, any JSON payload."""

    identifier: str
    payload: Any = field(repr=False)
    spec: JobSpec = field(default_factory=JobSpec)

    def __post_init__(self) -> None:
        check_identifier(self.identifier)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescheduleJobOptions:
    """What `reschedule_jobs` changes; whatever is left out stays as it is."""

    run_at: datetime | None = None
    priority: int | None = None
    attempts: int | None = None
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        check_time("run_at", self.run_at)
        check_integer("priority", self.priority, SMALLINT_MIN, SMALLINT_MAX)
        check_integer("attempts", self.attempts, 0, SMALLINT_MAX)
        check_integer("max_attempts", self.max_attempts, 1, SMALLINT_MAX)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stood in the database when it was read."""

    id: int
    task_identifier: str
    """Empty when the row of the task was deleted under the job."""
    payload_json: str = field(repr=False)
    queue_name: str | None
    priority: int
    run_at: datetime
    attempts: int
    max_attempts: int
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    key: str | None
    locked_at: datetime | None
    locked_by: str | None
    revision: int
    flags: tuple[str, ...]
    state: JobState

    @property
    def payload(self) -> Any:
        """The payload as Python values, decoded anew at each call."""
        return json.loads(self.payload_json)


def check_identifier(identifier: str) -> None:
    """Refuse a task identifier that the database would refuse."""
    check_text("identifier", identifier, MAX_IDENTIFIER_LENGTH)


def check_text(name: str, value: str, longest: int) -> None:
    """Refuse text that is empty, too long, or that PostgreSQL cannot store."""
    if not isinstance(value, str):
        raise InvalidJobError(f"{name} must be a string, not {type(value).__name__}")
    if not 1 <= len(value) <= longest:
        raise InvalidJobError(f"{name} must have 1 to {longest} characters; this one has {len(value)}")
    check_storable(name, value)


def check_storable(name: str, value: str) -> None:
    """Refuse text with characters that PostgreSQL cannot store."""
    if "\0" in value:
        raise InvalidJobError(f"{name} contains a NUL character, which PostgreSQL cannot store")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidJobError(f"{name} contains half of a surrogate pair, which is not valid text")


def check_integer(name: str, value: int | None, least: int, most: int) -> None:
    """Refuse anything but a whole number within the limits; None passes."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidJobError(f"{name} must be a whole number, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidJobError(f"{name} must be between {least} and {most}; got {value}")


def check_time(name: str, value: datetime | None) -> None:
    """Refuse anything but a datetime with a time zone; None passes."""
    if value is None:
        return
    if not isinstance(value, datetime):
        raise InvalidJobError(f"{name} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidJobError(
            f"{name} must have a time zone; got {value.isoformat()}. "
            f"Use datetime.now(timezone.utc), or give it a tzinfo."
        )


def _key_mode(value: JobKeyMode | str) -> JobKeyMode:
    try:
        return JobKeyMode(value)
    except ValueError:
        allowed = ", ".join(repr(mode.value) for mode in JobKeyMode)
        raise InvalidJobError(f"job_key_mode must be one of {allowed}; got {value!r}") from None


def _checked_flags(flags: Iterable[str]) -> tuple[str, ...]:
    if isinstance(flags, str):
        raise InvalidJobError(f"flags must be a list of strings; got the single string {flags!r}")
    listed = tuple(dict.fromkeys(flags))
    for flag in listed:
        if not isinstance(flag, str):
            raise InvalidJobError(f"flags must be strings; got {type(flag).__name__}")
        check_storable("a flag", flag)
    return listed
