"""Durable background jobs for Python on PostgreSQL, in Graphile Worker's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.on_demand import names_on_demand

if TYPE_CHECKING:
    from ferryman.app import App
    from ferryman.client import Cleaned, CleanupTask, Client, JobCounts, JobPage, JobProgress, SyncClient
    from ferryman.client.schedules import KnownCrontab, Schedule
    from ferryman.context import CONTEXT, WorkerContext
    from ferryman.control import Fail, Retry, Snooze
    from ferryman.cron import Cron, Crontab, CrontabFill, CrontabTimer, Weekday, parse_crontab
    from ferryman.errors import FerrymanError, LeaseLostError, WorkerCrashed
    from ferryman.far_times import FarTime
    from ferryman.health import Finding, HealthLimits, HealthReport, Repair, Repaired, Severity, Tuned, Tuning
    from ferryman.jobs import Job, JobKeyMode, JobSpec, JobState, NewJob, RawJobSpec, RescheduleJobOptions
    from ferryman.recovery.config import INFRASTRUCTURE_RESILIENT_FLAG, WorkerRecoveryConfig
    from ferryman.recovery.results import (
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
    from ferryman.tasks import Task
    from ferryman.worker import BatchResult, LocalQueueConfig, Worker, WorkerOptions, WorkerShutdownConfig

__version__ = "0.1.0"

__all__ = [
    "CONTEXT",
    "INFRASTRUCTURE_RESILIENT_FLAG",
    "ActiveWorker",
    "App",
    "BatchResult",
    "Cleaned",
    "CleanupTask",
    "Client",
    "Crash",
    "Cron",
    "Crontab",
    "CrontabFill",
    "CrontabTimer",
    "Fail",
    "FarTime",
    "FerrymanError",
    "Finding",
    "HealthLimits",
    "HealthReport",
    "Job",
    "JobCounts",
    "JobKeyMode",
    "JobPage",
    "JobProgress",
    "JobSpec",
    "JobState",
    "KnownCrontab",
    "LeaseLostError",
    "LocalQueueConfig",
    "LostWorker",
    "NewJob",
    "Pruned",
    "RawJobSpec",
    "Recovery",
    "Repair",
    "Repaired",
    "RescheduleJobOptions",
    "Retry",
    "Schedule",
    "Severity",
    "Snooze",
    "SweepStaleWorkersOptions",
    "SweepStaleWorkersResult",
    "SyncClient",
    "Task",
    "Tuned",
    "Tuning",
    "UnregisteredWorker",
    "Weekday",
    "Worker",
    "WorkerContext",
    "WorkerCrashed",
    "WorkerOptions",
    "WorkerRecoveryConfig",
    "WorkerShutdownConfig",
    "WorkerState",
    "__version__",
    "parse_crontab",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "ferryman.app": "App",
            "ferryman.client": "Cleaned CleanupTask Client JobCounts JobPage JobProgress SyncClient",
            "ferryman.client.schedules": "KnownCrontab Schedule",
            "ferryman.context": "CONTEXT WorkerContext",
            "ferryman.control": "Fail Retry Snooze",
            "ferryman.cron": "Cron Crontab CrontabFill CrontabTimer Weekday parse_crontab",
            "ferryman.errors": "FerrymanError LeaseLostError WorkerCrashed",
            "ferryman.far_times": "FarTime",
            "ferryman.health": "Finding HealthLimits HealthReport Repair Repaired Severity Tuned Tuning",
            "ferryman.jobs": "Job JobKeyMode JobSpec JobState NewJob RawJobSpec RescheduleJobOptions",
            "ferryman.recovery.config": "INFRASTRUCTURE_RESILIENT_FLAG WorkerRecoveryConfig",
            "ferryman.recovery.results": (
                "ActiveWorker Crash LostWorker Pruned Recovery SweepStaleWorkersOptions SweepStaleWorkersResult "
                "UnregisteredWorker WorkerState"
            ),
            "ferryman.tasks": "Task",
            "ferryman.worker": "BatchResult LocalQueueConfig Worker WorkerOptions WorkerShutdownConfig",
        },
        modules="client context cron embedded errors health hooks jobs recovery retries schema tasks worker",
    )
