"""The life of a worker: wake-ups, claiming, execution, settling, shutdown."""

from ferryman.worker.batches import BatchResult
from ferryman.worker.local_queue import LocalQueueConfig, RefetchDelayConfig
from ferryman.worker.options import WorkerOptions, WorkerShutdownConfig
from ferryman.worker.worker import Worker

__all__ = ["BatchResult", "LocalQueueConfig", "RefetchDelayConfig", "Worker", "WorkerOptions", "WorkerShutdownConfig"]
