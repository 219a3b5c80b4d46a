"""Jobs that ended because their process did."""

from ferryman.errors import PoolClosedError, WorkerCrashed

__all__ = ["PoolClosedError", "WorkerCrashed"]
