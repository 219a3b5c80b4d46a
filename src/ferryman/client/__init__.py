"""Adding, changing and inspecting jobs: one set of operations, an async and a blocking client."""

from ferryman.client.asynchronous import Client
from ferryman.client.blocking import SyncClient
from ferryman.client.reading import JobCounts, JobPage, JobProgress
from ferryman.client.upkeep import Cleaned, CleanupTask

__all__ = [
    "Cleaned",
    "CleanupTask",
    "Client",
    "JobCounts",
    "JobPage",
    "JobProgress",
    "SyncClient",
]
