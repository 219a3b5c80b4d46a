-- Delete named queues that have no job and no lock. A locked queue is in use even if its job is gone: its worker will unlock
-- it. Runs under lock_queues.sql.
delete from :schema._private_job_queues as queue
where
    queue.locked_at is null
    and not exists (select from :schema._private_jobs as job where job.job_queue_id = queue.id)
returning queue.queue_name;
