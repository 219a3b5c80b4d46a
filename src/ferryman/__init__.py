"""Durable background jobs for Python on PostgreSQL, in Graphile Worker's tables."""

from ferryman.app import App
from ferryman.client import Cleaned, CleanupTask, Client, JobCounts, JobPage, SyncClient
from ferryman.context import WorkerContext
from ferryman.errors import FerrymanError
from ferryman.jobs import Job, JobKeyMode, JobSpec, JobState, NewJob, RawJobSpec, RescheduleJobOptions
from ferryman.tasks import Task

__version__ = "0.1.0"

__all__ = [
    "App",
    "Cleaned",
    "CleanupTask",
    "Client",
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
    "SyncClient",
    "Task",
    "WorkerContext",
    "__version__",
]
