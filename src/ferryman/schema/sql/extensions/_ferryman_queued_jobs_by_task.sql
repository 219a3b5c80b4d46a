-- The same for jobs with a queue. Each job is in one of the two, so that a deep queue hides no job without a queue.
--
-- The condition differs in its words from that of the index by queue, for the reason given with the index by task.
create index _ferryman_queued_jobs_by_task on :schema._private_jobs (task_id, priority, run_at)
where coalesce(job_queue_id, 0) <> 0 and locked_at is null and attempts < max_attempts;
