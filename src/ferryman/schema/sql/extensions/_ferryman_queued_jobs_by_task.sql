-- An index by task of jobs with a queue. Each job is in this index or in _ferryman_jobs_by_task, so a deep queue hides
-- no job without a queue.
--
-- The words of the condition differ from those of the index by queue, for the reason given in
-- _ferryman_jobs_by_task.sql.
create index _ferryman_queued_jobs_by_task on :schema._private_jobs (task_id, priority, run_at)
where coalesce(job_queue_id, 0) <> 0 and locked_at is null and attempts < max_attempts;
