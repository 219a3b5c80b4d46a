"""`WorkerRecoveryConfig`: how a user says how the jobs of dead workers are recovered, with keywords or as a chain.

Its setters have the names of the settings, so the values are read from `config.settings`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TypedDict

from ferryman.errors import ConfigurationError
from ferryman.recovery.settings import INFRASTRUCTURE_RESILIENT_FLAG, RecoverySettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import Unpack

    from ferryman.retries import OnCrash

__all__ = ["INFRASTRUCTURE_RESILIENT_FLAG", "RecoverySettings", "WorkerRecoveryConfig"]

_NAMES = tuple(each.name for each in fields(RecoverySettings))


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


class WorkerRecoveryConfig:
    """How the jobs of dead workers are recovered. `RecoverySettings` explains the settings and has their defaults.

        WorkerRecoveryConfig(heartbeat_interval=timedelta(seconds=10))
        WorkerRecoveryConfig().heartbeat_interval(timedelta(seconds=10)).sweep_threshold(timedelta(minutes=1))

    A config is disabled until something is set: naming any setting enables it, in both forms, and only `enabled=False`
    or `.enabled(False)` disables it again. So `Worker(app, recovery=WorkerRecoveryConfig())` turns recovery off; a
    worker that is given no config recovers. A config is never changed; each setter returns a new one.

    Keywords are checked at once, a chain when its `settings` are first read: half of a chain may contradict itself.
    """

    __slots__ = ("_choices", "_settings")

    def __init__(self, **choices: Unpack[RecoveryChoices]) -> None:
        self._settings: RecoverySettings | None = None
        self._choices: RecoveryChoices = choices
        _refuse_unknown(choices)
        if choices:
            self._choices = {"enabled": True, **choices}
            _ = self.settings

    @property
    def settings(self) -> RecoverySettings:
        """The values as plain attributes; `ConfigurationError` names everything that is wrong with them."""
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

    def enabled(self, value: bool) -> WorkerRecoveryConfig:
        """Turn recovery on or off."""
        return self._with({"enabled": value})

    def heartbeat_interval(self, value: timedelta) -> WorkerRecoveryConfig:
        """How often a worker says that it lives."""
        return self._with({"heartbeat_interval": value})

    def sweep_interval(self, value: timedelta) -> WorkerRecoveryConfig:
        """How often a worker looks for dead ones."""
        return self._with({"sweep_interval": value})

    def sweep_threshold(self, value: timedelta) -> WorkerRecoveryConfig:
        """A worker that was silent for longer is dead."""
        return self._with({"sweep_threshold": value})

    def recovery_delay(self, value: timedelta) -> WorkerRecoveryConfig:
        """How long a recovered job waits before it may run again."""
        return self._with({"recovery_delay": value})

    def resilient_sweep_threshold_multiplier(self, value: float) -> WorkerRecoveryConfig:
        """How many times longer a worker with a resilient job may be silent."""
        return self._with({"resilient_sweep_threshold_multiplier": value})

    def resilient_job_flags(self, value: Sequence[str]) -> WorkerRecoveryConfig:
        """A job with any of these flags is resilient."""
        return self._with({"resilient_job_flags": value})

    def lost_session_grace(self, value: timedelta | None) -> WorkerRecoveryConfig:
        """How long after its session is lost a worker is declared dead; None: only silence tells."""
        return self._with({"lost_session_grace": value})

    def claimed_threshold(self, value: timedelta) -> WorkerRecoveryConfig:
        """After this silence, jobs that were claimed but never started go back."""
        return self._with({"claimed_threshold": value})

    def on_crash(self, value: OnCrash) -> WorkerRecoveryConfig:
        """What becomes of a job that was running, if its task does not say."""
        return self._with({"on_crash": value})

    def max_crashes(self, value: int | None) -> WorkerRecoveryConfig:
        """A job fails for good at this many crashes within the window; None: never."""
        return self._with({"max_crashes": value})

    def recover_claimed(self, value: bool) -> WorkerRecoveryConfig:
        """Whether jobs that were claimed and never started are given back; if not, they stay locked."""
        return self._with({"recover_claimed": value})

    def recover_running(self, value: bool) -> WorkerRecoveryConfig:
        """Whether jobs that were running, or may have been, are recovered; if not, they stay locked."""
        return self._with({"recover_running": value})

    def crash_window(self, value: timedelta) -> WorkerRecoveryConfig:
        """How long a crash counts."""
        return self._with({"crash_window": value})

    def unregistered_lock_timeout(self, value: timedelta | None) -> WorkerRecoveryConfig:
        """Recover jobs of workers that never registered when they have claimed nothing for this long; None: never."""
        return self._with({"unregistered_lock_timeout": value})

    def heartbeat_retention(self, value: timedelta | None) -> WorkerRecoveryConfig:
        """How long workers that are gone are remembered; None: for ever."""
        return self._with({"heartbeat_retention": value})

    def crash_retention(self, value: timedelta | None) -> WorkerRecoveryConfig:
        """How long crashes are remembered; None: for ever."""
        return self._with({"crash_retention": value})

    def worker_state_retention(self, value: timedelta | None) -> WorkerRecoveryConfig:
        """How long it is remembered what workers were doing; None: for ever."""
        return self._with({"worker_state_retention": value})

    def terminal_record_retention(self, value: timedelta | None) -> WorkerRecoveryConfig:
        """How long jobs that failed for good are kept, of tasks that a worker of ours has; None: for ever."""
        return self._with({"terminal_record_retention": value})

    def replaced(self, **choices: Unpack[RecoveryChoices]) -> WorkerRecoveryConfig:
        """A config with several settings changed at once, and enabled."""
        _refuse_unknown(choices)
        return self._with(choices)

    def _with(self, choice: RecoveryChoices) -> WorkerRecoveryConfig:
        changed = WorkerRecoveryConfig()
        changed._choices = {**self._choices, "enabled": True, **choice}
        return changed


def _refuse_unknown(choices: RecoveryChoices) -> None:
    for name in choices:
        if name not in _NAMES:
            from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

            close = get_close_matches(name, _NAMES, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(_NAMES)}"
            raise ConfigurationError(f"unknown setting {name!r} of worker_recovery; {hint}")
