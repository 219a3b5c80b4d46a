-- An index by queue. A claim steps from the first job of one queue to the first of the next, past all jobs behind it.
-- Jobs with the same priority and run_at are in the order of their ids, in which they must run.
--
-- Extension 4 once made this index without the id. All of this is one transaction, so no statement runs without the
-- index.
--
-- Locks: the table of jobs, against everything, until the index is built: about a second for each million jobs with a
-- queue. It takes the strong lock at once, as two sessions that raise a weaker one would wait for each other. While it
-- waits for the lock, all later statements wait behind it: so it waits a tenth of a second at most, and the change is
-- tried again later.
set local lock_timeout = '100ms';
lock table :schema._private_jobs in access exclusive mode;
drop index if exists :schema._ferryman_jobs_by_queue;
create index _ferryman_jobs_by_queue on :schema._private_jobs (task_id, job_queue_id, priority, run_at, id)
where job_queue_id is not null and locked_at is null and attempts < max_attempts;
