"""The life of a worker: wake-ups, claiming, execution, settling, shutdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferryman.on_demand import names_on_demand
from ferryman.worker.options import WorkerOptions, WorkerShutdownConfig
from ferryman.worker.running.batch_results import BatchResult
from ferryman.worker.worker import Worker

if TYPE_CHECKING:
    from ferryman.worker.local_queue_config import LocalQueueConfig, RefetchDelayConfig

__all__ = ["BatchResult", "LocalQueueConfig", "RefetchDelayConfig", "Worker", "WorkerOptions", "WorkerShutdownConfig"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "ferryman.worker.local_queue_config": "LocalQueueConfig RefetchDelayConfig",
        },
    )
