"""The settings of recovery: one frozen object, checked whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ferryman.errors import ConfigurationError, InvalidJobError
from ferryman.jobs import MAX_FLAG_LENGTH, check_text
from ferryman.retries import ON_CRASH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferryman.retries import OnCrash

INFRASTRUCTURE_RESILIENT_FLAG = "infrastructure_resilient"
"""The flag of jobs whose worker is given more time before it is taken for dead."""

BEATS_BEFORE_SILENCE = 2
"""A worker that missed a single beat is not silent yet."""
LEAST_CLAIMED_THRESHOLD = timedelta(seconds=120)
"""The `claimed_threshold` of a config that does not name one, unless two heartbeats are longer."""

_SECOND, _HOUR, _DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
_UNSET = timedelta.min
"""Stands for a `claimed_threshold` that the config does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySettings:
    """The values of a `WorkerRecoveryConfig`. All problems are told together.

    Values outside of the bounds in brackets are allowed, and a worker logs a warning about each when it starts.

    enabled: whether workers send heartbeats and sweep
    heartbeat_interval: time between two heartbeats [1 second to 2 minutes]
    sweep_interval: time between two searches for dead workers [1 second to 10 minutes]
    sweep_threshold: a worker is dead after this long without a heartbeat [1 second to 2 hours]; at least two heartbeats
    recovery_delay: how long a recovered job waits before it runs again [0 to 24 hours]
    resilient_sweep_threshold_multiplier: factor for the threshold of a worker that holds a resilient job
    resilient_job_flags: a job with any of these flags is resilient
    lost_session_grace: how long after its session is lost a worker is declared dead; 0.1 seconds to 1 hour. None: a
        lost session means nothing, and only silence tells
    claimed_threshold: jobs that were claimed but never started go back after this long without a heartbeat [1 second
        to 1 hour]; at least two heartbeats (default: 120 seconds, or two heartbeats if that is longer)
    on_crash: what happens to a running job if its task does not say: "requeue" restores the attempt and waits for the
        delay, "retry" uses the attempt, "fail" fails the job for good
    max_crashes: a job fails for good at this many crashes within `crash_window`, if its task does not say otherwise;
        None: never
    recover_claimed: whether jobs that were claimed and never started are given back; if not, they stay locked
    recover_running: whether jobs that were running, or may have been, are recovered; if not, they stay locked
    crash_window: how long a crash counts
    unregistered_lock_timeout: jobs of a worker that never registered are recovered when it has claimed nothing for
        this long; 1 second or more. None: never, so that Graphile's own rule of 4 hours holds
    heartbeat_retention: how long workers that are gone are remembered; None: for ever
    crash_retention: how long crashes are remembered, but never less than `crash_window`; None: for ever
    worker_state_retention: how long it is remembered what workers were doing; None: for ever
    terminal_record_retention: how long jobs that failed for good are kept, of tasks that a worker of ours has; None:
        for ever
    """

    enabled: bool = False
    heartbeat_interval: timedelta = timedelta(seconds=30)
    sweep_interval: timedelta = timedelta(seconds=60)
    sweep_threshold: timedelta = timedelta(minutes=5)
    recovery_delay: timedelta = timedelta(seconds=30)
    resilient_sweep_threshold_multiplier: float = 3
    resilient_job_flags: Sequence[str] = (INFRASTRUCTURE_RESILIENT_FLAG,)
    lost_session_grace: timedelta | None = timedelta(seconds=10)
    claimed_threshold: timedelta = field(default_factory=lambda: _UNSET)
    on_crash: OnCrash = "requeue"
    max_crashes: int | None = 3
    recover_claimed: bool = True
    recover_running: bool = True
    crash_window: timedelta = timedelta(hours=72)
    unregistered_lock_timeout: timedelta | None = None
    heartbeat_retention: timedelta | None = timedelta(hours=24)
    crash_retention: timedelta | None = timedelta(days=30)
    worker_state_retention: timedelta | None = timedelta(days=7)
    terminal_record_retention: timedelta | None = timedelta(days=30)

    def __post_init__(self) -> None:
        if self.claimed_threshold is _UNSET:
            object.__setattr__(self, "claimed_threshold", self._usual_claimed_threshold())
        problems = [*self._problems()]
        if problems:
            raise ConfigurationError("; ".join(f"worker_recovery.{problem}" for problem in problems))
        object.__setattr__(self, "resilient_job_flags", tuple(dict.fromkeys(self.resilient_job_flags)))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Settings that are allowed but outside of their usual bounds, a sentence for each."""
        return tuple(
            f"worker_recovery.{name} is {_shown(value)}; usual are {_shown(least)} to {_shown(most)}"
            for name, (least, most) in _USUAL_SPANS.items()
            if not least <= (value := getattr(self, name)) <= most
        )

    def _usual_claimed_threshold(self) -> timedelta:
        interval = self.heartbeat_interval
        if not isinstance(interval, timedelta):  # which is told as a problem of its own
            return LEAST_CLAIMED_THRESHOLD
        return max(LEAST_CLAIMED_THRESHOLD, interval * BEATS_BEFORE_SILENCE)

    def _problems(self) -> Iterator[str]:
        for name in ("enabled", "recover_claimed", "recover_running"):
            if not isinstance(getattr(self, name), bool):
                yield f"{name} must be True or False; got {getattr(self, name)!r}"
        for name, (least, most) in _SPANS.items():
            yield from _span_problems(name, getattr(self, name), least, most)
        for name in ("sweep_threshold", "claimed_threshold"):
            yield from self._beat_problems(name)
        for name, (lowest, highest, kinds) in _NUMBERS.items():
            yield from _number_problems(name, getattr(self, name), lowest, highest, kinds)
        if self.on_crash not in ON_CRASH:
            yield f"on_crash must be one of {', '.join(map(repr, ON_CRASH))}; got {self.on_crash!r}"
        yield from _flag_problems(self.resilient_job_flags)

    def _beat_problems(self, name: str) -> Iterator[str]:
        threshold, interval = getattr(self, name), self.heartbeat_interval
        if not isinstance(threshold, timedelta) or not isinstance(interval, timedelta):
            return
        least = interval * BEATS_BEFORE_SILENCE
        if threshold < least:
            yield (
                f"{name} ({_shown(threshold)}) must be at least {BEATS_BEFORE_SILENCE}x heartbeat_interval "
                f"({_shown(interval)}), minimum: {_shown(least)}"
            )


_LONGEST = 3650 * _DAY
_SPANS: dict[str, tuple[timedelta, timedelta]] = {
    "heartbeat_interval": (_SECOND / 10, _LONGEST),
    "sweep_interval": (_SECOND / 10, _LONGEST),
    "sweep_threshold": (_SECOND / 10, _LONGEST),
    "recovery_delay": (timedelta(), _LONGEST),
    "lost_session_grace": (_SECOND / 10, _HOUR),
    "claimed_threshold": (_SECOND / 10, _LONGEST),
    "crash_window": (_SECOND, 365 * _DAY),
    "unregistered_lock_timeout": (_SECOND, _LONGEST),
    "heartbeat_retention": (_HOUR, 365 * _DAY),
    "crash_retention": (_HOUR, 1825 * _DAY),
    "worker_state_retention": (_HOUR, 365 * _DAY),
    "terminal_record_retention": (_HOUR, 1825 * _DAY),
}
"""The shortest and the longest time that is allowed."""
_USUAL_SPANS: dict[str, tuple[timedelta, timedelta]] = {
    "heartbeat_interval": (_SECOND, 120 * _SECOND),
    "sweep_interval": (_SECOND, 600 * _SECOND),
    "sweep_threshold": (_SECOND, 2 * _HOUR),
    "recovery_delay": (timedelta(), 24 * _HOUR),
    "claimed_threshold": (_SECOND, _HOUR),
}
"""The shortest and the longest time without a warning: the bounds of Horsies."""
_MAY_BE_NONE = {
    "lost_session_grace",
    "max_crashes",
    "unregistered_lock_timeout",
    "heartbeat_retention",
    "crash_retention",
    "worker_state_retention",
    "terminal_record_retention",
}
_NUMBERS: dict[str, tuple[float, float, tuple[type, ...]]] = {
    "resilient_sweep_threshold_multiplier": (1, 1000, (int, float)),
    "max_crashes": (1, 1000, (int,)),
}


def _span_problems(name: str, value: Any, least: timedelta, most: timedelta) -> Iterator[str]:
    if value is None and name in _MAY_BE_NONE:
        return
    if not isinstance(value, timedelta):
        yield f"{name} must be a timedelta, not {type(value).__name__}"
    elif value < least:
        yield f"{name} ({_shown(value)}) must be >= {_shown(least)}"
    elif value > most:
        yield f"{name} ({_shown(value)}) must be <= {_shown(most)}"


def _number_problems(name: str, value: Any, least: float, most: float, kinds: tuple[Any, ...]) -> Iterator[str]:
    if value is None and name in _MAY_BE_NONE:
        return
    if not isinstance(value, kinds) or isinstance(value, bool):
        yield f"{name} must be a {'whole ' if float not in kinds else ''}number, not {type(value).__name__}"
    elif float(value) < least:
        yield f"{name} ({value:g}) must be >= {least:g}"
    elif float(value) > most:
        yield f"{name} ({value:g}) must be <= {most:g}"


def _flag_problems(flags: Any) -> Iterator[str]:
    if isinstance(flags, str) or not isinstance(flags, (list, tuple, set, frozenset)):
        yield f"resilient_job_flags must be a list of strings; got {flags!r}"
        return
    for flag in flags:
        try:
            check_text("each of resilient_job_flags", flag, MAX_FLAG_LENGTH)
        except InvalidJobError as error:
            yield str(error)


def _shown(span: timedelta) -> str:
    return f"{span.total_seconds():g} s"
