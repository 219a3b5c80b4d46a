"""Runs tasks in child processes, so that a crash costs one job and not the worker.

Each child runs one job at a time and is kept for the next. It is a fresh interpreter, never a fork: it has none of the
worker's sockets, threads or locks. Worker and child speak over one socket pair (`framing`): an order goes out, an
empty frame says that the task was found and begins, and a result comes back. Before each of them the child may send
notes: progress, log records, a question. What a child sends is JSON (`results`): the worker runs no code of it, and
makes no room for more than it may send. When the child ends, for whatever reason, so does its side of the conversation,
and the job that it ran is the only one to suffer: `ChildPool.run` raises `WorkerCrashed`, and nothing else does.
"""

from ferryman.script_guard import refuse_while_importing
from ferryman.worker.running.children.crashes import NotOursError, PoolClosedError, WorkerCrashed
from ferryman.worker.running.children.log_records import hand_on
from ferryman.worker.running.children.messages import (
    ChildAsksKeys,
    ChildDecision,
    ChildFailure,
    ChildLog,
    ChildNote,
    ChildProgress,
    ChildResult,
    ChildSuccess,
    ChildUsedLease,
)
from ferryman.worker.running.children.orders import ChildOrder, TaskPlace
from ferryman.worker.running.children.pool import ChildPool

__all__ = [
    "ChildAsksKeys",
    "ChildDecision",
    "ChildFailure",
    "ChildLog",
    "ChildNote",
    "ChildOrder",
    "ChildPool",
    "ChildProgress",
    "ChildResult",
    "ChildSuccess",
    "ChildUsedLease",
    "NotOursError",
    "PoolClosedError",
    "TaskPlace",
    "WorkerCrashed",
    "hand_on",
    "refuse_while_importing",
]
