"""Durable background jobs for Python on PostgreSQL, in Graphile Worker's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.on_demand import names_on_demand

if TYPE_CHECKING:
    from ferryman.app import App
    from ferryman.client import Cleaned, CleanupTask, Client, JobCounts, JobPage, JobProgress, SyncClient
    from ferryman.client.schedules import KnownCrontab, Schedule
    from ferryman.context import CONTEXT, WorkerContext
    from ferryman.cron import (
        Cron,
        CronOptions,
        Crontab,
        CrontabFill,
        CrontabTimer,
        Weekday,
        describe,
        next_times,
        parse_crontab,
        parse_timer,
    )
    from ferryman.embedded import EmbeddedPostgres
    from ferryman.errors import (
        ConfigurationError,
        CrontabError,
        DatabaseError,
        DatabaseUnavailableError,
        DuplicateScheduleError,
        DuplicateTaskError,
        EmbeddedServerError,
        FerrymanError,
        IncompatibleSchemaError,
        InvalidJobError,
        InvalidPayloadError,
        JobNotAddedError,
        JobScheduleError,
        JobScheduleFailedError,
        JobScheduleSkippedError,
        LeaseLostError,
        NoDatabaseError,
        NotConnectedError,
        PoolClosedError,
        ScheduleError,
        SchemaError,
        SchemaMissingError,
        TaskError,
        UnknownScheduleError,
        UnknownTaskError,
        UnsupportedServerError,
        WorkerCrashed,
    )
    from ferryman.far_times import FarTime
    from ferryman.handler_exceptions import Fail, Retry, Snooze
    from ferryman.health import Finding, HealthLimits, HealthReport, Repair, Repaired, Severity, Tuned, Tuning
    from ferryman.hooks import (
        AfterJobRun,
        BeforeJobRun,
        BeforeJobSchedule,
        Continue,
        CronJobScheduled,
        CronTick,
        FailureReason,
        HookRegistry,
        HookResult,
        Interceptor,
        JobComplete,
        JobFail,
        JobFetch,
        JobInterrupted,
        JobPermanentlyFail,
        JobRecovery,
        JobRecoveryResult,
        JobScheduleResult,
        JobStart,
        LocalQueueGetJobsComplete,
        LocalQueueInit,
        LocalQueueMode,
        LocalQueueRefetchDelayAbort,
        LocalQueueRefetchDelayExpired,
        LocalQueueRefetchDelayStart,
        LocalQueueReturnJobs,
        LocalQueueSetMode,
        Observer,
        Plugin,
        Reject,
        SettleOutcome,
        SettleRefused,
        ShutdownReason,
        Skip,
        WorkerInit,
        WorkerRecovered,
        WorkerShutdown,
        WorkerStart,
    )
    from ferryman.jobs import Job, JobKeyMode, JobSpec, JobState, NewJob, RawJobSpec, RescheduleJobOptions
    from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG, RecoverySettings, WorkerRecoveryConfig
    from ferryman.recovery.sweep_results import (
        ActiveWorker,
        Crash,
        LostWorker,
        Pruned,
        Recovery,
        SweepStaleWorkersOptions,
        SweepStaleWorkersResult,
        UnregisteredWorker,
        WorkerState,
    )
    from ferryman.retries import CustomDelay, FixedDelay, GraphileBackoff, LinearDelay, OnCrash, RetryPolicy
    from ferryman.schema import Layout, Migration, SchemaStatus, Uninstallation, Upgrade
    from ferryman.tasks import Task, TaskRegistry
    from ferryman.worker import (
        BatchResult,
        LocalQueueConfig,
        RefetchDelayConfig,
        Worker,
        WorkerOptions,
        WorkerShutdownConfig,
    )

__version__ = "0.1.0"

__all__ = [
    "CONTEXT",
    "INFRASTRUCTURE_RESILIENT_FLAG",
    "ActiveWorker",
    "AfterJobRun",
    "App",
    "BatchResult",
    "BeforeJobRun",
    "BeforeJobSchedule",
    "Cleaned",
    "CleanupTask",
    "Client",
    "ConfigurationError",
    "Continue",
    "Crash",
    "Cron",
    "CronJobScheduled",
    "CronOptions",
    "CronTick",
    "Crontab",
    "CrontabError",
    "CrontabFill",
    "CrontabTimer",
    "CustomDelay",
    "DatabaseError",
    "DatabaseUnavailableError",
    "DuplicateScheduleError",
    "DuplicateTaskError",
    "EmbeddedPostgres",
    "EmbeddedServerError",
    "Fail",
    "FailureReason",
    "FarTime",
    "FerrymanError",
    "Finding",
    "FixedDelay",
    "GraphileBackoff",
    "HealthLimits",
    "HealthReport",
    "HookRegistry",
    "HookResult",
    "IncompatibleSchemaError",
    "Interceptor",
    "InvalidJobError",
    "InvalidPayloadError",
    "Job",
    "JobComplete",
    "JobCounts",
    "JobFail",
    "JobFetch",
    "JobInterrupted",
    "JobKeyMode",
    "JobNotAddedError",
    "JobPage",
    "JobPermanentlyFail",
    "JobProgress",
    "JobRecovery",
    "JobRecoveryResult",
    "JobScheduleError",
    "JobScheduleFailedError",
    "JobScheduleResult",
    "JobScheduleSkippedError",
    "JobSpec",
    "JobStart",
    "JobState",
    "KnownCrontab",
    "Layout",
    "LeaseLostError",
    "LinearDelay",
    "LocalQueueConfig",
    "LocalQueueGetJobsComplete",
    "LocalQueueInit",
    "LocalQueueMode",
    "LocalQueueRefetchDelayAbort",
    "LocalQueueRefetchDelayExpired",
    "LocalQueueRefetchDelayStart",
    "LocalQueueReturnJobs",
    "LocalQueueSetMode",
    "LostWorker",
    "Migration",
    "NewJob",
    "NoDatabaseError",
    "NotConnectedError",
    "Observer",
    "OnCrash",
    "Plugin",
    "PoolClosedError",
    "Pruned",
    "RawJobSpec",
    "Recovery",
    "RecoverySettings",
    "RefetchDelayConfig",
    "Reject",
    "Repair",
    "Repaired",
    "RescheduleJobOptions",
    "Retry",
    "RetryPolicy",
    "Schedule",
    "ScheduleError",
    "SchemaError",
    "SchemaMissingError",
    "SchemaStatus",
    "SettleOutcome",
    "SettleRefused",
    "Severity",
    "ShutdownReason",
    "Skip",
    "Snooze",
    "SweepStaleWorkersOptions",
    "SweepStaleWorkersResult",
    "SyncClient",
    "Task",
    "TaskError",
    "TaskRegistry",
    "Tuned",
    "Tuning",
    "Uninstallation",
    "UnknownScheduleError",
    "UnknownTaskError",
    "UnregisteredWorker",
    "UnsupportedServerError",
    "Upgrade",
    "Weekday",
    "Worker",
    "WorkerContext",
    "WorkerCrashed",
    "WorkerInit",
    "WorkerOptions",
    "WorkerRecovered",
    "WorkerRecoveryConfig",
    "WorkerShutdown",
    "WorkerShutdownConfig",
    "WorkerStart",
    "WorkerState",
    "__version__",
    "describe",
    "next_times",
    "parse_crontab",
    "parse_timer",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "ferryman.app": "App",
            "ferryman.client": "Cleaned CleanupTask Client JobCounts JobPage JobProgress SyncClient",
            "ferryman.client.schedules": "KnownCrontab Schedule",
            "ferryman.context": "CONTEXT WorkerContext",
            "ferryman.handler_exceptions": "Fail Retry Snooze",
            "ferryman.cron": (
                "Cron CronOptions Crontab CrontabFill CrontabTimer Weekday describe next_times parse_crontab "
                "parse_timer"
            ),
            "ferryman.embedded": "EmbeddedPostgres",
            "ferryman.errors": (
                "ConfigurationError CrontabError DatabaseError DatabaseUnavailableError DuplicateScheduleError "
                "DuplicateTaskError EmbeddedServerError FerrymanError IncompatibleSchemaError InvalidJobError "
                "InvalidPayloadError JobNotAddedError JobScheduleError JobScheduleFailedError "
                "JobScheduleSkippedError LeaseLostError NoDatabaseError NotConnectedError PoolClosedError "
                "ScheduleError SchemaError SchemaMissingError TaskError UnknownScheduleError UnknownTaskError "
                "UnsupportedServerError WorkerCrashed"
            ),
            "ferryman.far_times": "FarTime",
            "ferryman.health": "Finding HealthLimits HealthReport Repair Repaired Severity Tuned Tuning",
            "ferryman.hooks": (
                "AfterJobRun BeforeJobRun BeforeJobSchedule Continue CronJobScheduled CronTick FailureReason "
                "HookRegistry HookResult Interceptor JobComplete JobFail JobFetch JobInterrupted JobPermanentlyFail "
                "JobRecovery JobRecoveryResult JobScheduleResult JobStart LocalQueueGetJobsComplete LocalQueueInit "
                "LocalQueueMode LocalQueueRefetchDelayAbort LocalQueueRefetchDelayExpired "
                "LocalQueueRefetchDelayStart LocalQueueReturnJobs LocalQueueSetMode Observer Plugin Reject "
                "SettleOutcome SettleRefused ShutdownReason Skip WorkerInit WorkerRecovered WorkerShutdown WorkerStart"
            ),
            "ferryman.jobs": "Job JobKeyMode JobSpec JobState NewJob RawJobSpec RescheduleJobOptions",
            "ferryman.recovery.config": "INFRASTRUCTURE_RESILIENT_FLAG RecoverySettings WorkerRecoveryConfig",
            "ferryman.recovery.sweep_results": (
                "ActiveWorker Crash LostWorker Pruned Recovery SweepStaleWorkersOptions SweepStaleWorkersResult "
                "UnregisteredWorker WorkerState"
            ),
            "ferryman.retries": "CustomDelay FixedDelay GraphileBackoff LinearDelay OnCrash RetryPolicy",
            "ferryman.schema": "Layout Migration SchemaStatus Uninstallation Upgrade",
            "ferryman.tasks": "Task TaskRegistry",
            "ferryman.worker": (
                "BatchResult LocalQueueConfig RefetchDelayConfig Worker WorkerOptions WorkerShutdownConfig"
            ),
        },
        modules="client context cron embedded errors health hooks jobs recovery retries schema tasks worker",
    )
