"""Jobs claimed ahead of the free slots, so that a slot never waits for the database."""

from ferryman.worker.local_queue.config import LocalQueueConfig, RefetchDelayConfig
from ferryman.worker.local_queue.queue import LocalQueue

__all__ = ["LocalQueue", "LocalQueueConfig", "RefetchDelayConfig"]
