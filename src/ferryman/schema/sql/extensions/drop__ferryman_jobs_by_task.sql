drop index if exists :schema._ferryman_jobs_by_task;
