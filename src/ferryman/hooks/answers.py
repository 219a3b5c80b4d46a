"""The answers of hooks, and the reasons that events carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, overload

import msgspec

from ferryman.discreet import Discreet
from ferryman.errors import InvalidJobError
from ferryman.jobs import SMALLINT_MAX, check_integer, check_time

P_co = TypeVar("P_co", covariant=True)


class Unchanged(Enum):
    """Stands for a payload that a hook does not change. None cannot, because it is a valid payload."""

    UNCHANGED = "unchanged"


UNCHANGED: Literal[Unchanged.UNCHANGED] = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True, init=False)
class Continue(Generic[P_co]):
    """A hook's answer: continue. A hook of `BeforeJobSchedule` can replace the payload: `Continue({"to": "a@b.c"})`."""

    payload: P_co = field(repr=False)

    @overload
    def __init__(self: Continue[Unchanged]) -> None: ...
    @overload
    def __init__(self, payload: P_co) -> None: ...
    def __init__(self, payload: Any = UNCHANGED) -> None:
        object.__setattr__(self, "payload", payload)


class Skip(msgspec.Struct, frozen=True):
    """A hook's answer: a job that would run is completed without running, a job that would be added is not added."""


class Reject(msgspec.Struct, frozen=True):
    """A hook's answer: the attempt fails, or the job is not added, with this message."""

    message: str

    def __post_init__(self) -> None:
        # The message ends up in a text column, far from the hook that could still correct it.
        if not isinstance(self.message, str):
            raise TypeError(f"the message of Reject must be a string, not {type(self.message).__name__}")


HookResult: TypeAlias = Continue[Unchanged] | Skip | Reject
"""The answer of a `BeforeJobRun` or `AfterJobRun` hook; None is `Continue()`."""

JobScheduleResult: TypeAlias = Continue[Any] | Skip | Reject
"""The answer of a `BeforeJobSchedule` hook; None is `Continue` with the payload unchanged."""


class JobRecoveryResult(Discreet, frozen=True):
    """The answer of a `JobRecovery` hook: call one of the four below. None is `Default()`."""

    Default: ClassVar[type[_Default]]
    """A hook's answer: recover the job as configured."""
    Reschedule: ClassVar[type[_Reschedule]]
    """A hook's answer: unlock the job, to run at `run_at`; `attempts`, if given, replaces its count."""
    FailWithBackoff: ClassVar[type[_FailWithBackoff]]
    """A hook's answer: count the attempt as failed; the job waits as after any other failure."""
    Skip: ClassVar[type[_Skip]]
    """A hook's answer: leave the job locked. It does not count as recovered."""

    def __repr__(self) -> str:
        given = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__)
        return f"{type(self).__qualname__}({', '.join(given)})"


class _Default(JobRecoveryResult, frozen=True):
    """A hook's answer: recover the job as configured."""


class _Reschedule(JobRecoveryResult, frozen=True):
    """A hook's answer: unlock the job, to run at `run_at`; `attempts`, if given, replaces its count."""

    run_at: datetime
    attempts: int | None = None

    def __post_init__(self) -> None:
        if check_time("run_at", self.run_at) is None:
            raise InvalidJobError("run_at must be a datetime, not None")
        check_integer("attempts", self.attempts, 0, SMALLINT_MAX)


class _FailWithBackoff(JobRecoveryResult, frozen=True):
    """A hook's answer: count the attempt as failed; the job waits as after any other failure."""


class _Skip(JobRecoveryResult, frozen=True):
    """A hook's answer: leave the job locked. It does not count as recovered."""


for _answer in (_Default, _Reschedule, _FailWithBackoff, _Skip):
    # The name that users write is also the one that repr shows and pickle looks up.
    _name = _answer.__name__.removeprefix("_")
    _answer.__name__, _answer.__qualname__ = _name, f"JobRecoveryResult.{_name}"
    setattr(JobRecoveryResult, _name, _answer)


class FailureReason(Enum):
    """Why a job was interrupted, as `JobInterrupted` and `JobRecovery` say it."""

    TASK_ERROR = "task_error"
    """The task raised an exception. No event has this: `JobFail` and `JobPermanentlyFail` report it."""
    TASK_PANIC = "task_panic"
    """The task brought down the process that it ran in. A name of Rust's, which no event has."""
    SHUTDOWN_ABORTED = "shutdown_aborted"
    """The worker shut down, and the task did not finish within the grace period."""
    WORKER_CRASHED = "worker_crashed"
    """The worker was declared dead."""


class ShutdownReason(Enum):
    """Why a worker shut down."""

    SIGNAL = "signal"
    """A signal of the operating system, such as SIGTERM."""
    ERROR = "error"
    """An error: the worker could not continue."""
    GRACEFUL = "graceful"
    """The program stopped it, or it had nothing left to do."""


class LocalQueueMode(Enum):
    """The state of a local queue."""

    STARTING = "starting"
    """Not started yet."""
    POLLING = "polling"
    """Holds no jobs, and looks for some."""
    WAITING = "waiting"
    """Holds jobs that wait for a free slot."""
    TTL_EXPIRED = "ttl_expired"
    """Held jobs for too long, and gave them back."""
    RELEASED = "released"
    """Stopped, and gave back the jobs that it held."""


class SettleOutcome(Enum):
    """The outcome with which a worker tried to settle a claim."""

    COMPLETE = "complete"
    """The job is done."""
    FAIL = "fail"
    """The attempt failed."""
    RETURN = "return"
    """The job is given back, with its attempt restored."""
