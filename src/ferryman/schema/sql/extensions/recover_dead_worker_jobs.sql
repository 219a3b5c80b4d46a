-- recover_dead_worker_jobs: give back the jobs of dead workers, and return how many there were.
--
-- The attempt is restored, except for a superseded job, which must not run beside its successor (parts/is_superseded.sql).
--
-- Locks: the rows of the jobs, then those of the queues.
create or replace function :schema.recover_dead_worker_jobs(worker_ids text[], recovery_delay interval default '0 seconds')
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $ferryman$
declare
    recovered integer;
begin
    update :schema._private_jobs as job
    set
        attempts = case
            when
                -- include: parts/is_superseded
                then job.attempts
            else greatest(0, job.attempts - 1)
        end,
        locked_at = null,
        locked_by = null,
        run_at = greatest(job.run_at, now() + recovery_delay),
        last_error = 'Job recovered after worker interruption',
        updated_at = now()
    where job.locked_by = any(worker_ids);
    get diagnostics recovered = row_count;

    update :schema._private_job_queues as queue
    set locked_at = null, locked_by = null
    where queue.locked_by = any(worker_ids);
    return recovered;
end
$ferryman$;
