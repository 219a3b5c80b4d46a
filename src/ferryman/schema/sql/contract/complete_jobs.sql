-- complete_jobs: delete jobs by hand, unless a worker runs them.
--
-- A lock older than four hours counts as forgotten. The queue of such a job is freed too if it is held under the same
-- lock: only the worker that took it would free it otherwise, and that worker is gone.
--
-- Locks: the rows of the jobs, then those of such queues.
create or replace function :schema.complete_jobs(job_ids bigint[]) returns setof :schema._private_jobs
language sql
as $ferryman$
    with completed as (
        delete from :schema._private_jobs
        where id operator(pg_catalog.=) any (job_ids) and (locked_at is null or locked_at operator(pg_catalog.<) (pg_catalog.now() operator(pg_catalog.-) interval '4 hours'))
        returning *
    ),
    freed as (
        update :schema._private_job_queues as queue
        set locked_at = null, locked_by = null
        from completed
        where
            queue.id operator(pg_catalog.=) completed.job_queue_id
            and queue.locked_by operator(pg_catalog.=) completed.locked_by
            and queue.locked_at operator(pg_catalog.<) (pg_catalog.now() operator(pg_catalog.-) interval '4 hours')
    )
    select * from completed
$ferryman$;
