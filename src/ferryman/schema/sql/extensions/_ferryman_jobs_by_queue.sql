-- From the head of one queue to the head of the next, past all that stand behind the first.
create index _ferryman_jobs_by_queue on :schema._private_jobs (task_id, job_queue_id, priority, run_at)
where job_queue_id is not null and locked_at is null and attempts < max_attempts;
