"""`WorkerRecoveryConfig`, and the settings that it stands for: how the jobs of dead workers are recovered."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from datetime import timedelta
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, overload

from ferryman.errors import ConfigurationError, InvalidJobError
from ferryman.jobs import MAX_FLAG_LENGTH, check_text
from ferryman.retries import ON_CRASH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Unpack

    from ferryman.retries import OnCrash

__all__ = ["INFRASTRUCTURE_RESILIENT_FLAG", "RecoverySettings", "WorkerRecoveryConfig"]

V = TypeVar("V")

INFRASTRUCTURE_RESILIENT_FLAG = "infrastructure_resilient"
"""The flag of a job whose worker may be silent for longer before it is declared dead."""

BEATS_BEFORE_SILENCE = 2
"""A worker that has missed one heartbeat is not silent yet."""
LEAST_CLAIMED_THRESHOLD = timedelta(seconds=120)
"""The default of `claimed_threshold`, unless two heartbeats take longer."""

_SECOND, _HOUR, _DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
_UNSET = timedelta.min
"""Stands for a `claimed_threshold` that the config does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySettings:
    """The values of a `WorkerRecoveryConfig`. One `ConfigurationError` lists everything that is wrong with them.

    Values outside the bounds in brackets are allowed; a worker logs a warning about each when it starts.

    enabled: whether workers send heartbeats and sweep
    heartbeat_interval: time between two heartbeats [1 second to 2 minutes]
    sweep_interval: time between two sweeps [1 second to 10 minutes]
    sweep_threshold: a worker that is silent for longer is dead [1 second to 2 hours]; at least two heartbeats
    recovery_delay: how long a requeued job waits before it runs again [0 to 24 hours]; a worker that is given no
        recovery settings uses 0
    resilient_sweep_threshold_multiplier: factor on `sweep_threshold` for a worker that holds a resilient job
    resilient_job_flags: a job with any of these flags is resilient
    lost_session_grace: how long after its session is lost a worker is declared dead; 0.1 seconds to 1 hour. None: a
        lost session means nothing, and only silence counts
    claimed_threshold: how long a worker must be silent before its unstarted jobs are given back [1 second to 1 hour];
        at least two heartbeats (default: 120 seconds, or two heartbeats if that is longer)
    on_crash: the policy for tasks that set none: "requeue" restores the attempt and waits for `recovery_delay`,
        "retry" uses the attempt, "fail" fails the job for good
    max_crashes: a job that crashes this many times within `crash_window` fails for good, unless its task sets another
        number; None: never
    recover_claimed: whether jobs that were claimed but never started are given back; if not, they stay locked
    recover_running: whether jobs that were running, or may have been, are recovered; if not, they stay locked
    crash_window: how long a crash counts
    unregistered_lock_timeout: jobs of a worker that never registered are recovered once it has claimed nothing for
        this long; 1 second or more. None: never, so Graphile's own rule of 4 hours holds
    heartbeat_retention: how long dead workers stay on record; None: for ever
    crash_retention: how long crashes stay on record, at least `crash_window`; None: for ever
    worker_state_retention: how long it stays on record what workers were doing; None: for ever
    terminal_record_retention: how long failed jobs are kept, if a registered worker has their task; None: for ever
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
            raise ConfigurationError("; ".join(f"recovery.{problem}" for problem in problems))
        object.__setattr__(self, "resilient_job_flags", tuple(dict.fromkeys(self.resilient_job_flags)))

    @property
    def doubts(self) -> tuple[str, ...]:
        """A sentence for each setting that is allowed but outside its usual bounds."""
        return tuple(
            f"recovery.{name} is {_shown(value)}, outside the usual range of {_shown(least)} to {_shown(most)}"
            for name, (least, most) in _USUAL_SPANS.items()
            if not least <= (value := getattr(self, name)) <= most
        )

    def _usual_claimed_threshold(self) -> timedelta:
        interval = self.heartbeat_interval
        if not isinstance(interval, timedelta):  # reported as a problem of its own
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
"""The shortest and the longest time that each setting allows."""
_USUAL_SPANS: dict[str, tuple[timedelta, timedelta]] = {
    "heartbeat_interval": (_SECOND, 120 * _SECOND),
    "sweep_interval": (_SECOND, 600 * _SECOND),
    "sweep_threshold": (_SECOND, 2 * _HOUR),
    "recovery_delay": (timedelta(), 24 * _HOUR),
    "claimed_threshold": (_SECOND, _HOUR),
}
"""The shortest and the longest time without a warning: the bounds that Horsies enforces."""
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


_MEANINGS = dict(
    re.findall(r"^(\w+): (.+(?:\n {4}.+)*)", inspect.cleandoc(RecoverySettings.__doc__ or ""), re.MULTILINE)
)
"""The meaning of each setting, by its name."""


class RecoveryChoices(TypedDict, total=False):
    """The settings that a `WorkerRecoveryConfig` may name. `RecoverySettings` explains them."""

    enabled: bool
    heartbeat_interval: timedelta
    sweep_interval: timedelta
    sweep_threshold: timedelta
    recovery_delay: timedelta
    resilient_sweep_threshold_multiplier: float
    resilient_job_flags: Sequence[str]
    lost_session_grace: timedelta | None
    claimed_threshold: timedelta
    on_crash: OnCrash
    max_crashes: int | None
    recover_claimed: bool
    recover_running: bool
    crash_window: timedelta
    unregistered_lock_timeout: timedelta | None
    heartbeat_retention: timedelta | None
    crash_retention: timedelta | None
    worker_state_retention: timedelta | None
    terminal_record_retention: timedelta | None


class _Setter(Generic[V]):
    """Makes a method of a config that returns it with one setting changed; `help()` shows what the setting means."""

    def __set_name__(self, owner: type, name: str) -> None:
        def change(config: WorkerRecoveryConfig, value: V) -> WorkerRecoveryConfig:
            choice: Any = {name: value}
            return config.replaced(**choice)

        change.__name__, change.__qualname__, change.__doc__ = name, f"{owner.__name__}.{name}", _MEANINGS.get(name)
        self._change = change

    @overload
    def __get__(self, config: None, _: type) -> Callable[[WorkerRecoveryConfig, V], WorkerRecoveryConfig]: ...
    @overload
    def __get__(self, config: WorkerRecoveryConfig, _: type) -> Callable[[V], WorkerRecoveryConfig]: ...
    def __get__(self, config: WorkerRecoveryConfig | None, _: type) -> Any:
        return self._change if config is None else MethodType(self._change, config)


class WorkerRecoveryConfig:
    """How the jobs of dead workers are recovered. `RecoverySettings` explains the settings and has their defaults.

        WorkerRecoveryConfig(heartbeat_interval=timedelta(seconds=10))
        WorkerRecoveryConfig().heartbeat_interval(timedelta(seconds=10)).sweep_threshold(timedelta(minutes=1))

    Naming any setting turns recovery on, in both forms; only `enabled=False` or `.enabled(False)` turns it off again.
    So `Worker(app, recovery=WorkerRecoveryConfig())` turns recovery off; a worker that is given no config recovers.

    A config never changes: each setter returns a new one. The setters have the names of the settings, so the values
    are read from `config.settings`. Keywords are checked at once, a chain when its `settings` are first read: half of
    a chain may contradict itself.
    """

    __slots__ = ("_choices", "_settings")

    enabled = _Setter[bool]()
    heartbeat_interval = _Setter[timedelta]()
    sweep_interval = _Setter[timedelta]()
    sweep_threshold = _Setter[timedelta]()
    recovery_delay = _Setter[timedelta]()
    resilient_sweep_threshold_multiplier = _Setter[float]()
    resilient_job_flags = _Setter["Sequence[str]"]()
    lost_session_grace = _Setter["timedelta | None"]()
    claimed_threshold = _Setter[timedelta]()
    on_crash = _Setter["OnCrash"]()
    max_crashes = _Setter["int | None"]()
    recover_claimed = _Setter[bool]()
    recover_running = _Setter[bool]()
    crash_window = _Setter[timedelta]()
    unregistered_lock_timeout = _Setter["timedelta | None"]()
    heartbeat_retention = _Setter["timedelta | None"]()
    crash_retention = _Setter["timedelta | None"]()
    worker_state_retention = _Setter["timedelta | None"]()
    terminal_record_retention = _Setter["timedelta | None"]()

    def __init__(self, **choices: Unpack[RecoveryChoices]) -> None:
        self._settings: RecoverySettings | None = None
        self._choices: RecoveryChoices = choices
        _refuse_unknown(choices)
        if choices:
            self._choices = {"enabled": True, **choices}
            _ = self.settings

    @property
    def settings(self) -> RecoverySettings:
        """The values as plain attributes. Raises `ConfigurationError` if any of them cannot work."""
        if self._settings is None:
            self._settings = RecoverySettings(**self._choices)
        return self._settings

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self._choices.items())
        return f"WorkerRecoveryConfig({listed})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkerRecoveryConfig) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.settings)

    def replaced(self, **choices: Unpack[RecoveryChoices]) -> WorkerRecoveryConfig:
        """Return a config with several settings changed at once, and recovery turned on."""
        _refuse_unknown(choices)
        changed = WorkerRecoveryConfig()
        changed._choices = {**self._choices, "enabled": True, **choices}
        return changed


def _refuse_unknown(choices: RecoveryChoices) -> None:
    names = [each.name for each in fields(RecoverySettings)]
    for name in choices:
        if name not in names:
            from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

            close = get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"
            raise ConfigurationError(f"unknown setting {name!r} of WorkerRecoveryConfig; {hint}")
