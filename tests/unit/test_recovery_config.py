from __future__ import annotations

import inspect
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from ferryman.errors import ConfigurationError
from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG, RecoverySettings, WorkerRecoveryConfig

SECONDS = timedelta(seconds=1)
CHOICES: dict[str, Any] = {
    "heartbeat_interval": 20 * SECONDS,
    "sweep_interval": 30 * SECONDS,
    "sweep_threshold": 90 * SECONDS,
    "recovery_delay": 5 * SECONDS,
    "resilient_sweep_threshold_multiplier": 4,
    "resilient_job_flags": ("a", "b"),
    "lost_session_grace": 3 * SECONDS,
    "claimed_threshold": 70 * SECONDS,
    "on_crash": "retry",
    "max_crashes": 5,
    "recover_claimed": False,
    "recover_running": False,
    "crash_window": timedelta(hours=1),
    "unregistered_lock_timeout": timedelta(hours=4),
    "heartbeat_retention": None,
    "crash_retention": timedelta(days=1),
    "worker_state_retention": timedelta(days=14),
    "terminal_record_retention": None,
}


def test_the_defaults_are_those_of_the_rust_worker() -> None:
    assert WorkerRecoveryConfig().settings == RecoverySettings(
        enabled=False,
        heartbeat_interval=timedelta(seconds=30),
        sweep_interval=timedelta(seconds=60),
        sweep_threshold=timedelta(minutes=5),
        recovery_delay=timedelta(seconds=30),
        resilient_sweep_threshold_multiplier=3,
        resilient_job_flags=("infrastructure_resilient",),
    )


def test_the_defaults_of_what_only_we_have() -> None:
    settings = WorkerRecoveryConfig().settings
    assert (settings.lost_session_grace, settings.claimed_threshold) == (10 * SECONDS, 120 * SECONDS)
    assert (settings.on_crash, settings.max_crashes, settings.crash_window) == ("requeue", 3, timedelta(hours=72))
    assert (settings.recover_claimed, settings.recover_running) == (True, True)
    assert settings.crash_retention == timedelta(days=30)
    assert settings.unregistered_lock_timeout is None


def test_the_defaults_of_the_records_are_those_of_horsies() -> None:
    settings = WorkerRecoveryConfig().settings
    assert settings.heartbeat_retention == timedelta(hours=24)
    assert settings.worker_state_retention == timedelta(days=7)
    assert settings.terminal_record_retention == timedelta(days=30)


def test_the_flag_has_a_name() -> None:
    assert INFRASTRUCTURE_RESILIENT_FLAG == "infrastructure_resilient"


@pytest.mark.parametrize(("name", "value"), CHOICES.items())
def test_each_setter_stores_its_value_and_enables_recovery(name: str, value: object) -> None:
    config = getattr(WorkerRecoveryConfig(), name)(value)
    assert (config.settings.enabled, getattr(config.settings, name)) == (True, value)


@pytest.mark.parametrize(("name", "value"), CHOICES.items())
def test_each_keyword_does_the_same(name: str, value: object) -> None:
    assert WorkerRecoveryConfig(**{name: value}) == getattr(WorkerRecoveryConfig(), name)(value)


def test_every_setting_has_a_setter() -> None:
    assert {each.name for each in fields(RecoverySettings)} == {"enabled", *CHOICES}


@pytest.mark.parametrize("name", ["enabled", *CHOICES])
def test_help_shows_what_each_setter_changes(name: str) -> None:
    setter = getattr(WorkerRecoveryConfig(), name)
    meaning, explained = inspect.getdoc(setter), inspect.getdoc(RecoverySettings)
    assert meaning
    assert f"\n{name}: {meaning.splitlines()[0]}\n" in f"{explained}\n"
    assert [*inspect.signature(setter).parameters] == ["value"]
    assert setter.__qualname__ == f"WorkerRecoveryConfig.{name}"


def test_enabled_false_disables_it_again() -> None:
    config = WorkerRecoveryConfig().sweep_interval(5 * SECONDS).enabled(False)
    assert (config.settings.enabled, config.settings.sweep_interval) == (False, 5 * SECONDS)
    assert not WorkerRecoveryConfig(enabled=False, sweep_interval=5 * SECONDS).settings.enabled
    assert config.recovery_delay(SECONDS).settings.enabled, "a later setter enables it once more"


def test_enabled_true_alone_enables_it() -> None:
    assert WorkerRecoveryConfig().enabled(True).settings.enabled
    assert WorkerRecoveryConfig(enabled=True).settings.enabled


def test_a_setter_leaves_the_config_it_was_called_on_alone() -> None:
    first = WorkerRecoveryConfig()
    first.heartbeat_interval(5 * SECONDS)
    assert first == WorkerRecoveryConfig()
    assert hash(first) == hash(WorkerRecoveryConfig())


def test_a_chain_reads_as_in_rust() -> None:
    config = (
        WorkerRecoveryConfig()
        .enabled(True)
        .heartbeat_interval(timedelta(seconds=30))
        .sweep_interval(timedelta(seconds=60))
        .sweep_threshold(timedelta(seconds=300))
        .recovery_delay(timedelta(seconds=30))
    )
    assert config == WorkerRecoveryConfig().enabled(True)


def test_a_chain_may_contradict_itself_half_way() -> None:
    config = WorkerRecoveryConfig().sweep_threshold(10 * SECONDS).claimed_threshold(10 * SECONDS)
    assert config.heartbeat_interval(5 * SECONDS).settings.sweep_threshold == 10 * SECONDS
    with pytest.raises(ConfigurationError, match="sweep_threshold"):
        _ = config.settings


def test_a_threshold_must_be_two_beats_and_the_message_names_the_least() -> None:
    told = r"^recovery\.sweep_threshold \(30 s\) must be at least 2x heartbeat_interval \(30 s\), minimum: 60 s"
    with pytest.raises(ConfigurationError, match=told):
        WorkerRecoveryConfig(heartbeat_interval=30 * SECONDS, sweep_threshold=30 * SECONDS)
    with pytest.raises(ConfigurationError, match=r"claimed_threshold \(59 s\) must be at least 2x .* minimum: 60 s"):
        WorkerRecoveryConfig(claimed_threshold=59 * SECONDS)
    assert WorkerRecoveryConfig(sweep_threshold=60 * SECONDS, claimed_threshold=60 * SECONDS)


def test_a_claimed_threshold_that_nobody_chose_never_gets_a_config_refused() -> None:
    config = WorkerRecoveryConfig(heartbeat_interval=90 * SECONDS, sweep_threshold=300 * SECONDS)
    assert config.settings.claimed_threshold == 180 * SECONDS
    assert WorkerRecoveryConfig(heartbeat_interval=60 * SECONDS).settings.claimed_threshold == 120 * SECONDS
    assert WorkerRecoveryConfig(heartbeat_interval=SECONDS).settings.claimed_threshold == 120 * SECONDS


def test_a_job_may_be_allowed_any_number_of_crashes() -> None:
    assert WorkerRecoveryConfig(max_crashes=None).settings.max_crashes is None


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("claimed_threshold", SECONDS, timedelta(hours=1)),
        ("sweep_threshold", SECONDS, timedelta(hours=2)),
        ("sweep_interval", SECONDS, timedelta(minutes=10)),
        ("heartbeat_interval", SECONDS, timedelta(minutes=2)),
        ("recovery_delay", timedelta(), timedelta(days=1)),
    ],
)
def test_each_time_has_usual_bounds_beyond_which_it_is_warned_of(name: str, least: timedelta, most: timedelta) -> None:
    given = {"heartbeat_interval": SECONDS / 10, "sweep_threshold": 9 * SECONDS, name: most + SECONDS}
    if name == "heartbeat_interval":
        given |= {"sweep_threshold": timedelta(hours=1)}
    doubts = RecoverySettings(**given).doubts
    usual = f"outside the usual range of {least.total_seconds():g} s to {most.total_seconds():g} s"
    assert f"recovery.{name} is {(most + SECONDS).total_seconds():g} s, {usual}" in doubts
    if least:
        shorter = RecoverySettings(**{**given, name: least / 2}).doubts
        assert f"recovery.{name} is {least.total_seconds() / 2:g} s, {usual}" in shorter
    for allowed in (least, most):
        told = RecoverySettings(**{**given, name: allowed}).doubts if allowed or name == "recovery_delay" else ()
        assert not any(doubt.startswith(f"recovery.{name} ") for doubt in told)


@pytest.mark.parametrize(
    "given",
    [
        {"sweep_threshold": timedelta(hours=4)},
        {"sweep_interval": timedelta(minutes=15)},
        {"recovery_delay": timedelta(days=2)},
    ],
)
def test_settings_that_rust_and_pro_allow_are_not_refused(given: dict[str, Any]) -> None:
    assert len(WorkerRecoveryConfig(**given).settings.doubts) == 1
    assert not WorkerRecoveryConfig(enabled=True).settings.doubts


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("claimed_threshold", SECONDS / 10, timedelta(days=3650)),
        ("sweep_threshold", SECONDS / 10, timedelta(days=3650)),
        ("sweep_interval", SECONDS / 10, timedelta(days=3650)),
        ("heartbeat_interval", SECONDS / 10, timedelta(days=3650)),
        ("recovery_delay", timedelta(), timedelta(days=3650)),
        ("lost_session_grace", SECONDS / 10, timedelta(hours=1)),
        ("crash_window", SECONDS, timedelta(days=365)),
        ("unregistered_lock_timeout", SECONDS, timedelta(days=3650)),
        ("heartbeat_retention", timedelta(hours=1), timedelta(days=365)),
        ("crash_retention", timedelta(hours=1), timedelta(days=1825)),
        ("worker_state_retention", timedelta(hours=1), timedelta(days=365)),
        ("terminal_record_retention", timedelta(hours=1), timedelta(days=1825)),
    ],
)
def test_each_time_has_bounds_that_its_message_names(name: str, least: timedelta, most: timedelta) -> None:
    for wrong, bound in ((least - SECONDS / 100, f">= {least.total_seconds():g} s"), (most + SECONDS, "<= ")):
        with pytest.raises(ConfigurationError) as refused:
            WorkerRecoveryConfig(**{name: wrong})
        assert f"recovery.{name} ({wrong.total_seconds():g} s) must be {bound}" in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"resilient_sweep_threshold_multiplier": 0.5}, "resilient_sweep_threshold_multiplier (0.5) must be >= 1"),
        ({"resilient_sweep_threshold_multiplier": "3"}, "multiplier must be a number, not str"),
        ({"max_crashes": 0}, "max_crashes (0) must be >= 1"),
        ({"max_crashes": 1.5}, "max_crashes must be a whole number, not float"),
        ({"max_crashes": True}, "max_crashes must be a whole number, not bool"),
        ({"on_crash": "explode"}, "on_crash must be one of 'requeue', 'retry', 'fail'; got 'explode'"),
        ({"sweep_interval": 60}, "sweep_interval must be a timedelta, not int"),
        ({"sweep_threshold": None}, "sweep_threshold must be a timedelta, not NoneType"),
        ({"enabled": "yes"}, "enabled must be True or False; got 'yes'"),
        ({"resilient_job_flags": "flag"}, "resilient_job_flags must be a list of strings; got 'flag'"),
        ({"resilient_job_flags": [""]}, "each of resilient_job_flags must have 1 to 128 characters"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        WorkerRecoveryConfig(**wrong)
    assert told in str(refused.value)


def test_all_problems_are_told_together() -> None:
    with pytest.raises(ConfigurationError) as refused:
        WorkerRecoveryConfig(sweep_threshold=SECONDS, sweep_interval=timedelta(), max_crashes=-1)
    assert str(refused.value).count("recovery.") == 3


def test_an_unknown_keyword_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown setting 'heartbeet_interval'.*did you mean 'heartbeat_int"):
        WorkerRecoveryConfig(heartbeet_interval=SECONDS)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="there are: enabled, heartbeat_interval"):
        WorkerRecoveryConfig(x=SECONDS)  # type: ignore[call-arg]


def test_the_guidelines_for_heavy_and_quick_tasks_are_accepted() -> None:
    assert WorkerRecoveryConfig(heartbeat_interval=60 * SECONDS, sweep_threshold=600 * SECONDS)
    quick = WorkerRecoveryConfig(heartbeat_interval=10 * SECONDS, sweep_threshold=30 * SECONDS)
    assert quick.settings.sweep_threshold == 30 * SECONDS


def test_a_config_shows_what_was_chosen() -> None:
    assert repr(WorkerRecoveryConfig()) == "WorkerRecoveryConfig()"
    assert repr(WorkerRecoveryConfig().max_crashes(2)) == "WorkerRecoveryConfig(enabled=True, max_crashes=2)"
