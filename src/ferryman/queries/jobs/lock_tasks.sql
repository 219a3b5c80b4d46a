-- Waits for every producer that is adding jobs, and holds new ones off: each of them writes to this table before it
-- writes a job, so afterwards no job can be on its way that refers to a task that seems unused. Producers would queue up
-- behind a wait of ours, so we give up soon and try again.
set local lock_timeout = '250ms';
lock table :schema._private_tasks in share row exclusive mode;
