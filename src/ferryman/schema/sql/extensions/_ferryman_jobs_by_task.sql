-- An index by task of jobs without a queue: a worker finds its jobs behind any number of jobs for other workers.
--
-- The condition means the same as is_available, in other words. PostgreSQL uses an index only for a statement that
-- repeats the index's condition, so it never confuses this index with Graphile's, even if it believes that the table is
-- empty.
create index _ferryman_jobs_by_task on :schema._private_jobs (task_id, priority, run_at)
where job_queue_id is null and locked_at is null and attempts < max_attempts;
