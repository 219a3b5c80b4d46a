"""Runs tasks in child processes, so that a crash costs one job and not the worker.

A child is a fresh interpreter, never a fork: it has none of the worker's sockets, threads or locks. It runs one job at
a time and is kept for the next. Worker and child are connected by one socket pair (`channel`):

    worker                                      child
    order: the task and the job (`orders`) ──▶
                                           ◀──  notes while the module is imported: log records
                                           ◀──  an empty frame: the task was found and starts
                                           ◀──  notes while the task runs: progress, log records, a question
                                           ◀──  the result (`messages`)

The child's messages are JSON of a limited size, so that a child can neither run code in its worker nor fill its memory.
When a child ends, for any reason, its side of the channel closes, and only the job that it ran is affected:
`ChildPool.run` raises `WorkerCrashed`.
"""
