"""Runs tasks in child processes, so that a crash costs one job and not the worker.

Each child runs one job at a time and is kept for the next. It is a fresh interpreter, never a fork: it has none of
the worker's sockets, threads or locks. Worker and child speak over one socket pair (`framing`): an order goes out, an
empty frame says that the task was found and begins, and a result comes back. When the child ends, for whatever
reason, so does its side of the conversation, and the job that it ran is the only one to suffer.
"""

from ferryman.worker.children.crashes import PoolClosedError, WorkerCrashed
from ferryman.worker.children.importing import refuse_while_importing
from ferryman.worker.children.orders import ChildOrder, TaskPlace
from ferryman.worker.children.pool import ChildPool
from ferryman.worker.children.results import ChildFailure, ChildResult, ChildSuccess

__all__ = [
    "ChildFailure",
    "ChildOrder",
    "ChildPool",
    "ChildResult",
    "ChildSuccess",
    "PoolClosedError",
    "TaskPlace",
    "WorkerCrashed",
    "refuse_while_importing",
]
