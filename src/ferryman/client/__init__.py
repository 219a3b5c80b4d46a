"""Adding, changing and inspecting jobs: one set of operations, an async and a blocking client."""

from ferryman.client.asynchronous import Client
from ferryman.client.blocking import SyncClient
from ferryman.client.cleaning import Cleaned, CleanupTask
from ferryman.client.reading import JobCounts, JobPage, JobProgress
from ferryman.client.schedules import KnownCrontab, Schedule

__all__ = [
    "Cleaned",
    "CleanupTask",
    "Client",
    "JobCounts",
    "JobPage",
    "JobProgress",
    "KnownCrontab",
    "Schedule",
    "SyncClient",
]
