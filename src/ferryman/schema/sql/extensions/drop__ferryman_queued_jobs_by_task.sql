drop index if exists :schema._ferryman_queued_jobs_by_task;
