-- From the head of one queue to the head of the next, past all that stand behind the first. Jobs of the same priority and
-- run_at stand in the order of their ids, as they must run.
--
-- Extension 4 once made this index without the id. Nobody misses it meanwhile: all is one transaction.
-- Locks: the table of jobs, against everybody, until the index is built: about a second for each million jobs that wait in
-- queues. The lock is asked for at once, not after a weaker one, since two who raise their locks wait for each other. Who
-- asks for it holds up all who come after: so not for longer than a tenth of a second, and the change is tried again later.
set local lock_timeout = '100ms';
lock table :schema._private_jobs in access exclusive mode;
drop index if exists :schema._ferryman_jobs_by_queue;
create index _ferryman_jobs_by_queue on :schema._private_jobs (task_id, job_queue_id, priority, run_at, id)
where job_queue_id is not null and locked_at is null and attempts < max_attempts;
