"""The options of a worker: those of the command line, else those of the application."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ferryman import App, WorkerOptions, WorkerRecoveryConfig, WorkerShutdownConfig
from ferryman.cli.worker.plan import Plan
from ferryman.errors import ConfigurationError
from ferryman.hooks import HookRegistry, JobComplete, JobFail
from ferryman.worker import LocalQueueConfig, RefetchDelayConfig

MINUTE = timedelta(minutes=1)


def test_the_command_line_wins_over_the_application() -> None:
    asked = WorkerOptions(
        concurrency=5,
        local_queue=LocalQueueConfig(size=50, ttl=timedelta(seconds=7)),
        forbidden_flags=["slow"],
        not_tasks=["send"],
        max_jobs=5,
        max_memory=2**28,
        complete_job_batch_delay=timedelta(seconds=1),
        shutdown=WorkerShutdownConfig(interrupted_job_retry_delay=timedelta(seconds=9)),
        extensions={"theirs": 1},
    )
    plan = Plan(
        target="tasks",
        concurrency=20,
        queue_size=7,
        poll_seconds=0.5,
        grace_seconds=25,
        max_connections=3,
        max_jobs=100,
        child_max_memory=2**30,
        forbidden_flags=("huge",),
        tasks=("send",),
        no_listen=True,
    )

    options = plan.options(App(worker=asked), hooks=HookRegistry())

    assert options.local_queue == LocalQueueConfig(size=7, ttl=timedelta(seconds=7))
    assert options.shutdown == WorkerShutdownConfig(
        listen_os_shutdown_signals=False,
        grace_period=timedelta(seconds=25),
        interrupted_job_retry_delay=timedelta(seconds=9),
    )
    assert (options.concurrency, options.poll_interval, options.max_connections) == (20, timedelta(seconds=0.5), 3)
    assert (options.max_jobs, options.max_memory, options.child_max_memory) == (100, 2**28, 2**30)
    assert options.forbidden_flags == ("huge",)
    assert (options.tasks, options.not_tasks) == (("send",), ())
    assert not options.use_notification_delivery
    assert options.complete_job_batch_delay == timedelta(seconds=1)
    assert options.extensions == {"theirs": 1}


def test_what_the_command_line_leaves_out_the_application_decides() -> None:
    hooks = HookRegistry()
    hooks.on(JobFail, lambda _: None)
    asked = WorkerOptions(
        concurrency=5, local_queue=LocalQueueConfig(), forbidden_flags=["slow"], tasks=["send"], hooks=hooks
    )
    ours = HookRegistry()
    ours.on(JobComplete, lambda _: None)

    options = Plan(target="tasks").options(App(worker=asked), hooks=ours)

    assert options.hooks.wants(JobFail)
    assert options.hooks.wants(JobComplete)
    assert not hooks.wants(JobComplete)
    signals = replace(asked.shutdown, listen_os_shutdown_signals=False)
    assert replace(options, hooks=hooks) == replace(asked, shutdown=signals)


@pytest.mark.parametrize(
    ("asked", "no_recovery", "expected"),
    [
        (None, False, WorkerRecoveryConfig(recovery_delay=timedelta())),
        (WorkerOptions(concurrency=5), False, WorkerRecoveryConfig(recovery_delay=timedelta())),
        (
            WorkerOptions(sweep_interval=timedelta(seconds=9)),
            False,
            WorkerRecoveryConfig(sweep_interval=timedelta(seconds=9)),
        ),
        (WorkerOptions(recovery=WorkerRecoveryConfig(enabled=False)), False, WorkerRecoveryConfig(enabled=False)),
        (WorkerOptions(sweep_interval=MINUTE), True, WorkerRecoveryConfig(enabled=False)),
    ],
)
def test_recovery_is_on_unless_the_application_or_the_command_line_says_otherwise(
    asked: WorkerOptions | None, no_recovery: bool, expected: WorkerRecoveryConfig
) -> None:
    options = Plan(target="tasks", no_recovery=no_recovery).options(App(worker=asked), hooks=HookRegistry())

    assert options.recovery == expected


def test_a_queue_of_no_size_claims_nothing_ahead() -> None:
    app = App(worker=WorkerOptions(local_queue=LocalQueueConfig(size=50)))
    plain = {"hooks": HookRegistry()}

    assert Plan(target="tasks", queue_size=0).options(app, **plain).local_queue is None
    assert Plan(target="tasks", queue_size=8).options(App(), **plain).local_queue == LocalQueueConfig(size=8)


def test_an_application_with_options_of_another_kind_is_told_which_are_wanted() -> None:
    with pytest.raises(ConfigurationError, match=r"App\(worker=…\) takes WorkerOptions\(…\); got dict"):
        Plan(target="tasks").options(App(worker={"concurrency": 5}), hooks=HookRegistry())


def test_options_that_cannot_work_together_are_told() -> None:
    queue = LocalQueueConfig(refetch_delay=RefetchDelayConfig(duration=timedelta(seconds=1)))
    app = App(worker=WorkerOptions(local_queue=queue))

    with pytest.raises(ConfigurationError, match=r"must not be larger than poll_interval \(0.5 s\)"):
        Plan(target="tasks", poll_seconds=0.5).options(app, hooks=HookRegistry())
