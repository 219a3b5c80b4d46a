-- Wait for every producer that is adding jobs, and hold new ones off. Each of them writes to this table before it writes a
-- job, so afterwards no job can be under way that refers to a task that seems unused.
-- Locks: the table of tasks, against all who write, until the transaction ends. Producers queue up behind the wait for this
-- lock, so it ends soon and is tried again.
set local lock_timeout = '250ms';
lock table :schema._private_tasks in share row exclusive mode;
