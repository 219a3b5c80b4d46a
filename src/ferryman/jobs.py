"""Jobs and their scheduling as frozen values, checked when they are made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ferryman.discreet import Discreet
from ferryman.errors import InvalidJobError
from ferryman.traces import origin_of, without_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MAX_IDENTIFIER_LENGTH = 128
MAX_QUEUE_NAME_LENGTH = 128
MAX_KEY_LENGTH = 512
MAX_FLAG_LENGTH = 128
SMALLINT_MIN, SMALLINT_MAX = -32768, 32767
LONGEST_DELAY = timedelta(days=365_000)


class JobKeyMode(Enum):
    """The effect of adding a job whose key another job already has."""

    REPLACE = "replace"
    """Overwrite the waiting job completely: payload, time, queue and the rest. Its attempts start again."""
    PRESERVE_RUN_AT = "preserve_run_at"
    """Like `REPLACE`, but a job that was never attempted keeps its `run_at`."""
    UNSAFE_DEDUPE = "unsafe_dedupe"
    """Keep the existing job unchanged, even if it is running or has failed for good."""


class JobState(Enum):
    """The state of a job. Each job is in exactly one."""

    READY = "ready"
    """Never attempted and due."""
    SCHEDULED = "scheduled"
    """Never attempted and not due yet."""
    RUNNING = "running"
    """Claimed by a worker."""
    RETRYING = "retrying"
    """Attempted before, waiting for its next attempt."""
    FAILED = "failed"
    """Out of attempts. It stays in the table until it is rescheduled or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """How to schedule a job. The task's defaults fill in values that you leave out, then the database's.

    queue_name: jobs with the same queue name run one at a time
    run_at: the earliest time to run it, with a time zone (default: now)
    delay: how long to wait from now, by the database's clock; instead of `run_at`
    max_attempts: attempts before the job fails for good, 1 to 32,767 (default: 25)
    job_key: 1 to 512 characters; at most one waiting job has a given key
    job_key_mode: the effect if a job with this key exists (default: `JobKeyMode.REPLACE`)
    priority: -32,768 to 32,767, smaller runs first (default: 0)
    flags: labels; a worker can be configured to skip jobs that have them. Kept as a tuple
    """

    queue_name: str | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    max_attempts: int | None = None
    job_key: str | None = None
    job_key_mode: JobKeyMode | None = None
    priority: int | None = None
    flags: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(name, value))
        if self.delay is not None and self.run_at is not None:
            raise InvalidJobError("a job has either a run_at or a delay, not both. Leave one of them out.")

    def __repr__(self) -> str:
        given = (f"{item.name}={value!r}" for item in fields(self) if (value := getattr(self, item.name)) is not None)
        return f"JobSpec({', '.join(given)})"

    def over(self, defaults: JobSpec) -> JobSpec:
        """This spec, with `defaults` for the values that it leaves out."""
        missing = {
            name: value
            for name in _CHECKS
            if (value := getattr(defaults, name)) is not None and getattr(self, name) is None
        }
        if self.run_at is not None or self.delay is not None:
            # Either says when: the other one of the defaults would contradict it.
            missing.pop("run_at", None)
            missing.pop("delay", None)
        return replace(self, **missing) if missing else self


class _JobRecord(Discreet, frozen=True, gc=False):
    """A frozen value that is made by the thousand: msgspec makes one in a fraction of a dataclass's time.

    None of them can be part of a reference cycle, so the garbage collector need not look at them.
    """

    def __repr__(self) -> str:
        # Payloads may hold what should not be seen in a log.
        shown = (name for name in self.__struct_fields__ if name != "payload_json")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


class NewJob(_JobRecord, frozen=True, gc=False):
    """A job that is ready to be added, as `Task.job(...)` returns it. Its payload is checked JSON text."""

    identifier: str
    payload_json: str
    spec: JobSpec = msgspec.field(default_factory=lambda: NO_SPEC)

    def __post_init__(self) -> None:
        if isinstance(self.identifier, str):
            _check_identifier_once(self.identifier)
        else:
            check_identifier(self.identifier)


class TaskObject(Protocol):
    """An instance of a task class, for type checkers: any object with the `run` that a worker calls."""

    @property
    def run(self) -> Callable[..., Any]:
        """The method that runs the job."""
        ...


@dataclass(frozen=True, slots=True)
class RawJobSpec:
    """A job for `add_raw_jobs`: any task identifier, any JSON payload."""

    identifier: str
    payload: Any = field(repr=False)
    spec: JobSpec = field(default_factory=lambda: NO_SPEC)

    def __post_init__(self) -> None:
        check_identifier(self.identifier)
        if not isinstance(self.spec, JobSpec):
            raise InvalidJobError(f"spec must be a JobSpec, not {type(self.spec).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RescheduleJobOptions:
    """The changes for `reschedule_jobs`. Values that you leave out do not change."""

    run_at: datetime | None = None
    priority: int | None = None
    attempts: int | None = None
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        check_time("run_at", self.run_at)
        check_integer("priority", self.priority, SMALLINT_MIN, SMALLINT_MAX)
        check_integer("attempts", self.attempts, 0, SMALLINT_MAX)
        check_integer("max_attempts", self.max_attempts, 1, SMALLINT_MAX)


class Job(_JobRecord, frozen=True, gc=False):
    """A job as it was in the database when it was read."""

    id: int
    task_identifier: str
    """Empty if the row of its task was deleted."""
    payload_json: str
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
        """The payload as Python values, without its trace. Decoded at each call."""
        return json.loads(without_trace(self.payload_json))

    @property
    def trace_id(self) -> str | None:
        """The trace in which the job was added, as OpenTelemetry writes it: 32 hexadecimal digits."""
        producers = origin_of(self.payload_json).producers
        return f"{producers[0].trace_id:032x}" if producers else None


def check_identifier(identifier: str) -> str:
    """Check a task identifier by the rules of the database."""
    return check_text("identifier", identifier, MAX_IDENTIFIER_LENGTH)


@lru_cache(maxsize=1024)
def _check_identifier_once(identifier: str) -> None:
    """Check an identifier, and remember it: the same few come by the thousand."""
    check_identifier(identifier)


def check_text(name: str, value: str, longest: int) -> str:
    """Check that text has a fitting length, and that PostgreSQL can store it. Members of string enums become text."""
    if not isinstance(value, str):
        raise InvalidJobError(f"{name} must be a string, not {type(value).__name__}")
    if not 1 <= len(value) <= longest:
        raise InvalidJobError(f"{name} must have 1 to {longest} characters; this one has {len(value)}")
    check_storable(name, value)
    return str.__str__(value)


def check_storable(name: str, value: str) -> None:
    """Check that PostgreSQL can store the characters of a text."""
    if "\0" in value:
        raise InvalidJobError(f"{name} contains a NUL character, which PostgreSQL cannot store")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidJobError(f"{name} contains half of a surrogate pair, which is not valid text") from None


def check_integer(name: str, value: int | None, least: int, most: int) -> int | None:
    """Check for a whole number within the limits, or None. Members of integer enums become numbers."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidJobError(f"{name} must be a whole number, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidJobError(f"{name} must be between {least} and {most}; got {int.__repr__(value)}")
    return int.__int__(value)


def check_time(name: str, value: datetime | None) -> datetime | None:
    """Check for a datetime with a time zone, or None."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidJobError(f"{name} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidJobError(
            f"{name} must have a time zone; got {value.isoformat()}. "
            f"Use datetime.now(timezone.utc), or give it a tzinfo."
        )
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise InvalidJobError(f"{name} lies outside the years 1 to 9999 in UTC; got {value.isoformat()}") from None
    return value


def _delay(name: str, value: timedelta) -> timedelta:
    if not isinstance(value, timedelta):
        raise InvalidJobError(f"{name} must be a timedelta, not {type(value).__name__}")
    if not timedelta() <= value <= LONGEST_DELAY:
        raise InvalidJobError(f"{name} must be from 0 to {LONGEST_DELAY.days:,} days; got {value}")
    return value


def _key_mode(name: str, value: JobKeyMode | str) -> JobKeyMode:
    try:
        return JobKeyMode(value)
    except ValueError:
        allowed = ", ".join(repr(mode.value) for mode in JobKeyMode)
        raise InvalidJobError(f"{name} must be one of {allowed}; got {value!r}") from None


def _flags(name: str, flags: Iterable[str]) -> tuple[str, ...]:
    if isinstance(flags, str):
        raise InvalidJobError(f"{name} must be a list of strings; got the single string {flags!r}")
    try:
        listed = list(flags)
    except TypeError:
        raise InvalidJobError(f"{name} must be a list of strings, not {type(flags).__name__}") from None
    return tuple(dict.fromkeys(check_text(f"each of {name}", flag, MAX_FLAG_LENGTH) for flag in listed))


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "queue_name": lambda name, value: check_text(name, value, MAX_QUEUE_NAME_LENGTH),
    "run_at": check_time,
    "delay": _delay,
    "max_attempts": lambda name, value: check_integer(name, value, 1, SMALLINT_MAX),
    "job_key": lambda name, value: check_text(name, value, MAX_KEY_LENGTH),
    "job_key_mode": _key_mode,
    "priority": lambda name, value: check_integer(name, value, SMALLINT_MIN, SMALLINT_MAX),
    "flags": _flags,
}
"""The check of each field of `JobSpec`, which returns the value to keep."""

NO_SPEC: JobSpec = JobSpec()
"""The spec that leaves everything to the task and the database. Many jobs share it."""
