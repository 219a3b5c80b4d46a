"""The life of a worker: wake-ups, claiming, execution, settling, shutdown."""

from ferryman.worker.batches import BatchResult
from ferryman.worker.options import WorkerOptions, WorkerShutdownConfig
from ferryman.worker.worker import Worker

__all__ = ["BatchResult", "Worker", "WorkerOptions", "WorkerShutdownConfig"]
