"""Jobs that ended because their process did, or that no process was given."""

from ferryman.errors import PoolClosedError, WorkerCrashed

__all__ = ["NotOursError", "PoolClosedError", "WorkerCrashed"]


class NotOursError(Exception):
    """The job was lost, or may be, before its order was sent. No process has seen it."""
