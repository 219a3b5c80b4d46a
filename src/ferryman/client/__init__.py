"""Adding, changing and inspecting jobs: one set of operations, an async and a blocking client."""

from ferryman.client.asynchronous import Client
from ferryman.client.blocking import SyncClient
from ferryman.client.cleaning import Cleaned, CleanupTask
from ferryman.client.reading import JobCounts, JobPage, JobProgress

__all__ = [
    "Cleaned",
    "CleanupTask",
    "Client",
    "JobCounts",
    "JobPage",
    "JobProgress",
    "SyncClient",
]
