"""Recovery in a quick rhythm: tests cannot wait for minutes."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ferryman import WorkerRecoveryConfig
from ferryman.recovery import config

if TYPE_CHECKING:
    from collections.abc import Mapping


def _crowd() -> float:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1.0, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) / cores)


CROWD = _crowd()
"""How many processes of pytest share a core. All share its time, so that silence must last longer to mean something."""


def in_a_crowd(seconds: Mapping[str, float]) -> dict[str, float]:
    """The same rhythm, as slow as the crowd makes everybody."""
    return {name: round(value * CROWD, 6) for name, value in seconds.items()}  # as exact as PostgreSQL is


QUICK = in_a_crowd(
    {
        "heartbeat_interval": 0.3,
        "sweep_interval": 0.3,
        "sweep_threshold": 1.5,
        "claimed_threshold": 1.5,
        "lost_session_grace": 0.75,
        "recovery_delay": 0.0,
    }
)
"""Seconds. 1.5 of them stand for the usual 5 minutes of silence."""
PATIENT = {**QUICK, "sweep_threshold": 3600.0, "claimed_threshold": 3600.0}
"""Nobody is found silent within a test. Only lost sessions tell."""
OFF = {"enabled": False}


def recovery_of(choices: Mapping[str, Any] = QUICK) -> WorkerRecoveryConfig:
    """A config from seconds, which may be quicker than users are allowed to ask for."""
    bounds = {name: (timedelta(), most) for name, (_, most) in config._SPANS.items()}
    given: dict[str, Any] = {
        name: timedelta(seconds=value) if name in bounds and value is not None else value
        for name, value in choices.items()
    }
    with patch.dict(config._SPANS, bounds):
        return WorkerRecoveryConfig(**given)
