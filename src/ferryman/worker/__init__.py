"""Workers: claiming, running and settling jobs, from the first statement to the last."""

from __future__ import annotations

from ferryman.worker.options import LocalQueueConfig, RefetchDelayConfig, WorkerOptions, WorkerShutdownConfig
from ferryman.worker.running.batch_results import BatchResult
from ferryman.worker.worker import Worker

__all__ = ["BatchResult", "LocalQueueConfig", "RefetchDelayConfig", "Worker", "WorkerOptions", "WorkerShutdownConfig"]
