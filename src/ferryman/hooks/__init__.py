"""Hooks: events that your handlers observe or decide, and the registry of handlers.

`kinds` has the two base classes, `observers` and `interceptors` the events, `answers` what hooks return, and
`hook_registry` the handlers and how an event is reported to them. An observer's error is logged; an interceptor's error
becomes the answer that `Interceptor.after_error` gives. CONTRIBUTING.md has the recipe for a new event.
"""

from ferryman.hooks.answers import (
    Continue,
    FailureReason,
    HookResult,
    JobRecoveryResult,
    JobScheduleResult,
    LocalQueueMode,
    Reject,
    SettleOutcome,
    ShutdownReason,
    Skip,
)
from ferryman.hooks.hook_registry import HookRegistry, Plugin
from ferryman.hooks.interceptors import AfterJobRun, BeforeJobRun, BeforeJobSchedule, JobRecovery
from ferryman.hooks.kinds import Interceptor, Observer
from ferryman.hooks.observers import (
    CronJobScheduled,
    CronTick,
    JobComplete,
    JobFail,
    JobFetch,
    JobInterrupted,
    JobPermanentlyFail,
    JobStart,
    LocalQueueGetJobsComplete,
    LocalQueueInit,
    LocalQueueRefetchDelayAbort,
    LocalQueueRefetchDelayExpired,
    LocalQueueRefetchDelayStart,
    LocalQueueReturnJobs,
    LocalQueueSetMode,
    SettleRefused,
    WorkerInit,
    WorkerRecovered,
    WorkerShutdown,
    WorkerStart,
)

__all__ = [
    "AfterJobRun",
    "BeforeJobRun",
    "BeforeJobSchedule",
    "Continue",
    "CronJobScheduled",
    "CronTick",
    "FailureReason",
    "HookRegistry",
    "HookResult",
    "Interceptor",
    "JobComplete",
    "JobFail",
    "JobFetch",
    "JobInterrupted",
    "JobPermanentlyFail",
    "JobRecovery",
    "JobRecoveryResult",
    "JobScheduleResult",
    "JobStart",
    "LocalQueueGetJobsComplete",
    "LocalQueueInit",
    "LocalQueueMode",
    "LocalQueueRefetchDelayAbort",
    "LocalQueueRefetchDelayExpired",
    "LocalQueueRefetchDelayStart",
    "LocalQueueReturnJobs",
    "LocalQueueSetMode",
    "Observer",
    "Plugin",
    "Reject",
    "SettleOutcome",
    "SettleRefused",
    "ShutdownReason",
    "Skip",
    "WorkerInit",
    "WorkerRecovered",
    "WorkerShutdown",
    "WorkerStart",
]
