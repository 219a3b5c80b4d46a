-- Jobs without a queue by task: a worker finds its own behind any number of jobs for other workers.
--
-- The condition says what is_available says, in other words. An index is used only where a statement says what its
-- condition says, so this one and Graphile's are never taken for each other by a planner that believes the table empty.
create index _ferryman_jobs_by_task on :schema._private_jobs (task_id, priority, run_at)
where job_queue_id is null and locked_at is null and attempts < max_attempts;
