"""Durable background jobs for Python on PostgreSQL, in Graphile Worker's tables."""

from ferryman.app import App
from ferryman.client import Cleaned, CleanupTask, Client, JobCounts, JobPage, SyncClient
from ferryman.context import CONTEXT, WorkerContext
from ferryman.control import Fail, Retry, Snooze
from ferryman.errors import FerrymanError
from ferryman.jobs import Job, JobKeyMode, JobSpec, JobState, NewJob, RawJobSpec, RescheduleJobOptions
from ferryman.tasks import Task
from ferryman.worker import BatchResult, Worker, WorkerOptions, WorkerShutdownConfig

__version__ = "0.1.0"

__all__ = [
    "CONTEXT",
    "App",
    "BatchResult",
    "Cleaned",
    "CleanupTask",
    "Client",
    "Fail",
    "FerrymanError",
    "Job",
    "JobCounts",
    "JobKeyMode",
    "JobPage",
    "JobSpec",
    "JobState",
    "NewJob",
    "RawJobSpec",
    "RescheduleJobOptions",
    "Retry",
    "Snooze",
    "SyncClient",
    "Task",
    "Worker",
    "WorkerContext",
    "WorkerOptions",
    "WorkerShutdownConfig",
    "__version__",
]
