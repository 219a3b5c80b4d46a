-- force_unlock_workers: unlock all jobs and queues of these workers, even if the workers are alive. Attempts stay used.
--
-- Locks: the rows of the jobs, then those of the queues.
create or replace function :schema.force_unlock_workers(worker_ids text[]) returns void
language sql
as $ferryman$
    update :schema._private_jobs set locked_at = null, locked_by = null where locked_by operator(pg_catalog.=) any (worker_ids);
    update :schema._private_job_queues set locked_at = null, locked_by = null where locked_by operator(pg_catalog.=) any (worker_ids)
$ferryman$;
