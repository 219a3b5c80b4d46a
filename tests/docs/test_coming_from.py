"""docs/coming-from.md maps names of other job queues to ours; ours exist, and have the defaults that the page gives."""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

import ferryman
from ferryman import (
    App,
    Client,
    ConfigurationError,
    HookRegistry,
    Job,
    RecoverySettings,
    Task,
    Worker,
    WorkerContext,
    WorkerOptions,
)
from ferryman.cli.program import program
from ferryman.client.adding import add_job
from ferryman.client.upkeep import cleanup
from ferryman.tasks.decorator import TaskDecorator
from tests.docs.test_completeness import SHORT_FOR, spellings

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
TEXT = re.sub(r"^```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
OURS = re.compile(r"@?(?P<path>[A-Za-z_][\w.]*)(?:\((?:(?P<keyword>\w+)=…)?\))?")
ROOTS: dict[str, Any] = {
    "app": App,
    "client": Client("postgresql:///never-opened"),
    "worker": Worker,
    "ctx.job": Job,
    "ctx": WorkerContext,
    "task": Task,
    "hooks": HookRegistry,
    "ferryman": ferryman,
}
"""What the variables of the page are; others are names of the package."""
CALLED = {
    "app.task": TaskDecorator.__call__,
    "client.add_job": add_job,
    "client.cleanup": cleanup,
    "WorkerRecoveryConfig": RecoverySettings,
}
"""What takes the keywords of a name, where that is not the name itself."""
NOT_OURS = {
    "asyncio.create_subprocess_exec", "async with", "def", "run", "IDENTIFIER", "DATABASE_URL",
    "GRAPHILE_WORKER_SCHEMA", "[tool.ferryman]", "pyproject.toml", "_cron", "good_until",
}  # fmt: skip
WORKED_OUT = {
    "number of processors": lambda: WorkerOptions().concurrency == os.cpu_count(),
    "on, without a delay": lambda: (
        WorkerOptions().recovery.settings.recovery_delay == timedelta() and WorkerOptions().recovery.settings.enabled
    ),
    "as below": lambda: WorkerOptions().shutdown == ferryman.WorkerShutdownConfig(),
    "empty": lambda: WorkerOptions().hooks.is_empty,
    "120 s, or two heartbeats if longer": lambda: (
        RecoverySettings().claimed_threshold == timedelta(seconds=120)
        and RecoverySettings(heartbeat_interval=timedelta(minutes=2)).claimed_threshold == timedelta(minutes=4)
    ),
}
"""Defaults that are worked out, and whether they are today's."""
IN_THE_SEEDS = """
    WorkerRecoveryConfig WorkerOptions worker_recovery define_job pg_pool init heartbeat_interval sweep_interval
    sweep_threshold recovery_delay resilient_sweep_threshold_multiplier resilient_job_flags enabled WorkerUtils
    list_active_workers sweep_stale_workers SweepStaleWorkersOptions dry_run recovered_count worker_ids
    sweep_stale_workers_with_config INFRASTRUCTURE_RESILIENT_FLAG FailureReason HookRegistry JobRecovery
    JobRecoveryResult with_hooks Default Reschedule FailWithBackoff Skip WorkerCrashed JobSpec JobSpecBuilder
    create_utils add_job add_raw_job add_jobs add_raw_jobs add_batch_job JobKeyMode Replace PreserveRunAt
    UnsafeDedupe queue_name run_at max_attempts job_key job_key_mode priority flags with_use_local_time Cron
    daily_at fill CrontabFill with_cron RescheduleJobOptions Worker TaskHandler IDENTIFIER WorkerContext
    forbidden_flag use_local_time run_once interrupted_job_retry_delay heartbeatInterval sweepInterval
    sweepThreshold AppConfig for_database_url RecoveryConfig auto_requeue_stale_claimed claimed_stale_threshold_ms
    auto_fail_stale_running running_stale_threshold_ms check_interval_ms runner_heartbeat_interval_ms
    claimer_heartbeat_interval_ms heartbeat_retention_hours worker_state_retention_hours
    terminal_record_retention_hours auto_retry_for recover_stuck_workflows CLAIMED RUNNING PENDING
    PostgresBroker horsies_heartbeats horsies_worker_states horsies_tasks next_retry_at
"""
EXPORTED = """
    run runOnce runMigrations runTaskList runTaskListOnce makeWorkerUtils quickAddJob addJobAdhoc getTasks
    getCronItems parseCrontab parseCronItem parseCronItems Logger LogLevel LogFunctionFactory consoleLogFactory
    WorkerPreset digestPreset WithPgClient AddJobFunction Helpers JobHelpers CleanupTask WorkerUtils Task
    isValidTask TaskList CronItemOptions ParsedCronMatch CronMatcher ParsedCronItem CronItem DbJob Job
    KnownCrontab Worker WorkerPool Runner TaskSpec DbJobSpec ForbiddenFlagsFn SharedOptions WorkerSharedOptions
    RunOnceOptions WorkerPoolOptions RunnerOptions CronJob JobAndCronIdentifier WorkerUtilsOptions WorkerEventMap
    WorkerEvents TimestampDigest FileDetails

    CronBuilder parse_crontab CronJobKeyMode Crontab CrontabField CrontabFill CrontabTimer CrontabTimerError
    CrontabValue ShutdownSignal CronInput WorkerBuildError WorkerContextExt LocalQueue LocalQueueConfig
    LocalQueueError LocalQueueMode LocalQueueSignalSender RefetchDelayConfig ActiveWorkerRow
    SweepStaleWorkersResult WorkerShutdownConfig RawJobSpec BatchTaskHandler BatchTaskResult JobDefinition
    TaskDetails Extensions Plugin HookResult JobScheduleResult ShutdownReason define_batch_job define_jobs
    with_crons with_crontab add_extension add_plugin on local_queue database complete_job_batch_delay
    fail_job_batch_delay listen_os_shutdown_signals shutdown_signal shutdown_grace_period
    shutdown_interrupted_job_retry_delay max_pg_conn use_notification_delivery request_shutdown remove_job
    complete_jobs permanently_fail_jobs reschedule_jobs force_unlock_workers cleanup migrate with_executor
    with_task_details FailAll ItemResults failed_with_replacement try_pg_pool ProcessJobError ReleaseJobError

    promise prebootstrap postbootstrap premigrate postmigrate migrationError --connection --config
    --no-prepared-statements NO_LOG_SUCCESS GRAPHILE_LOGGER_DEBUG GRAPHILE_WORKER_DEBUG
    GRAPHILE_ENABLE_DANGEROUS_LOGS --payload-file job_queue_id task_id is_available

    Horsies PostgresConfig TaskResult TaskError OperationalErrorCode ContractCode RetrievalCode OutcomeCode
    BuiltInTaskCode RetryPolicy TaskInfo TaskAttemptInfo QueueMode CustomQueueConfig TaskStatus TaskAttemptOutcome
    TASK_TERMINAL_STATES ErrorCode ValidationReport MultipleValidationErrors WorkflowSpec TaskNode WorkflowHandle
    WorkflowDefinition SuccessPolicy start_workflow Weekday IntervalSchedule HourlySchedule DailySchedule
    WeeklySchedule MonthlySchedule SchedulePattern TaskSchedule ScheduleConfig WorkerResilienceConfig
    ExceptionMapper TaskHandle TaskSendOptions from_node TaskSendErrorCode TaskSendPayload TaskSendError
    TaskSendResult BrokerErrorCode BrokerOperationError BrokerResult Result Ok Err is_ok is_err
"""
"""What the packages of Node, Rust and Horsies export, but for parts of workflows and types that only serve others."""


def tables() -> list[tuple[list[str], list[list[str]]]]:
    """The heading and the rows of each table, as cells."""
    found = re.findall(r"(?:^\|.*\|\n)+", TEXT, re.MULTILINE)
    split = [[re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in table.splitlines()] for table in found]
    return [(heading, rows) for heading, _, *rows in split]


def mapped() -> list[str]:
    """The cells that hold our names."""
    return [row[heading.index("Ferryman")] for heading, rows in tables() for row in rows]


def mentioned() -> set[str]:
    """Our names: those in our column, and those of the prose that begin as ours do."""
    prose = re.sub(r"^\|.*$", "", TEXT, flags=re.MULTILINE)
    ours = (*(f"{root}." for root in ROOTS), "ferryman ", "@app.", "App(")
    in_cells = {name for cell in mapped() for name in CODE.findall(cell)}
    return (in_cells | {name for name in CODE.findall(prose) if name.startswith(ours)}) - NOT_OURS


def problem_with(name: str) -> str | None:
    """What is wrong with a name that the page says is ours."""
    if name.startswith("ferryman "):
        return problem_with_command(name)
    matched = OURS.fullmatch(re.sub(r"\((?!\w+=…\))[^)]*\)", "()", name))
    if matched is None:
        return f"{name!r} is no name, and not known to be somebody else's"
    value = found(matched["path"])
    if value is MISSING:
        return f"{name} does not exist"
    takes = inspect.signature(CALLED.get(matched["path"], value)).parameters if matched["keyword"] else {}
    return None if matched["keyword"] is None or matched["keyword"] in takes else f"{name}: no such keyword"


def problem_with_command(words: str) -> str | None:
    command: click.Command = program
    for word in words.split()[1:]:
        if word.startswith("--"):
            return None if any(word in option.opts for option in command.params) else f"{words}: no such option"
        following = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if following is None:
            return f"{words}: no such command"
        command = following
    return None


def found(path: str) -> Any:
    """What a dotted name stands for; MISSING when there is nothing."""
    root = max((root for root in ROOTS if path == root or path.startswith(f"{root}.")), key=len, default="")
    value, rest = (ROOTS[root], path.removeprefix(root)) if root else (ferryman, path)
    for part in filter(None, rest.split(".")):
        if part not in {*dir(value), *getattr(value, "__annotations__", {})}:
            return MISSING
        value = getattr(value, part, None)
    return value


def default_of(name: str) -> Any:
    """The default of an option that the page writes as `Owner(option=…)`."""
    matched = OURS.fullmatch(name)
    assert matched is not None, name
    owner = CALLED.get(matched["path"], getattr(ferryman, matched["path"]))
    known = {each.name: each for each in fields(owner)} if is_dataclass(owner) else {}
    option = {**(SHORT_FOR if owner is WorkerOptions else {}), **known}.get(matched["keyword"])
    return inspect.signature(owner).parameters[matched["keyword"]].default if option is None else option.default


def test_every_name_of_ours_on_the_page_exists() -> None:
    assert len(mentioned()) > 150
    assert [problem for name in sorted(mentioned()) if (problem := problem_with(name)) is not None] == []


def test_every_default_on_the_page_is_the_one_in_force() -> None:
    rows = [row for heading, rows in tables() if heading[-1] == "default here" for row in rows]
    told = {row[-2].strip("`"): row[-1] for row in rows}
    assert len(told) > 40
    wrong = {
        name: default
        for name, default in told.items()
        if not (WORKED_OUT[default]() if default in WORKED_OUT else default in spellings(default_of(name)))
    }
    assert wrong == {}


def test_a_worker_option_of_others_is_refused_with_the_name_that_the_page_gives() -> None:
    wrong = []
    rows = [row for heading, rows in tables() if heading[0] == "Node" and heading[-1] == "default here" for row in rows]
    for node, _, rust, _, ours, _ in rows:
        keyword = OURS.fullmatch(ours.strip("`"))["keyword"]  # type: ignore[index]
        for name in (
            name for cell in (node, rust) for name in CODE.findall(cell) if re.fullmatch("[a-z][A-Za-z_]*", name)
        ):
            if re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() in inspect.signature(WorkerOptions).parameters:
                continue
            with pytest.raises(ConfigurationError) as refused:
                WorkerOptions(**{name: 1})
            if keyword not in str(refused.value).partition("here it is ")[2]:
                wrong.append(str(refused.value))
    assert len(rows) > 25
    assert wrong == []


def test_every_name_that_people_come_with_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    names = {*IN_THE_SEEDS.split(), *EXPORTED.split()}
    assert sorted(name for name in names if not re.search(rf"(?<![A-Za-z]){name}(?![A-Za-z])", page)) == []


def test_every_public_name_can_be_imported_from_the_package() -> None:
    homes = {
        "client": {*ferryman.client.__all__},
        "cron": {*ferryman.cron.__all__} - {"CrontabRegistry"},
        "errors": {name for name, each in vars(ferryman.errors).items() if inspect.isclass(each)},
        "health": {*ferryman.health.__all__},
        "hooks": {*ferryman.hooks.__all__},
        "retries": {"CustomDelay", "FixedDelay", "GraphileBackoff", "LinearDelay", "OnCrash", "RetryPolicy"},
        "tasks": {"Task", "TaskRegistry"},
        "worker": {*ferryman.worker.__all__},
        "embedded": {"EmbeddedPostgres"},
    }
    for home, names in homes.items():
        module = getattr(ferryman, home)
        assert {name for name in names if getattr(ferryman, name, None) is not getattr(module, name)} == set()
        assert names <= {*ferryman.__all__}
