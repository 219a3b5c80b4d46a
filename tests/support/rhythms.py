"""Recovery in a quick rhythm: tests cannot wait for minutes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ferryman import WorkerRecoveryConfig
from ferryman.recovery import settings

if TYPE_CHECKING:
    from collections.abc import Mapping

QUICK = {
    "heartbeat_interval": 0.3,
    "sweep_interval": 0.3,
    "sweep_threshold": 1.5,
    "claimed_threshold": 1.5,
    "lost_session_grace": 0.75,
    "recovery_delay": 0.0,
}
"""Seconds. 1.5 of them stand for the usual 5 minutes of silence."""
PATIENT = {**QUICK, "sweep_threshold": 60.0, "claimed_threshold": 60.0}
"""Nobody is found silent within a test. Only lost sessions tell."""
OFF = {"enabled": False}


def recovery_of(choices: Mapping[str, Any] = QUICK) -> WorkerRecoveryConfig:
    """A config from seconds, which may be quicker than users are allowed to ask for."""
    bounds = {name: (timedelta(), most) for name, (_, most) in settings._SPANS.items()}
    given: dict[str, Any] = {
        name: timedelta(seconds=value) if name in bounds else value for name, value in choices.items()
    }
    with patch.dict(settings._SPANS, bounds):
        return WorkerRecoveryConfig(**given)
