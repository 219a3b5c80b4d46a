-- reschedule_jobs: change run_at, priority and attempts of jobs, unless a worker runs them. A null leaves a value as it
-- is. Locks: their rows.
create or replace function :schema.reschedule_jobs(
    job_ids bigint[],
    run_at timestamptz default null,
    priority integer default null,
    attempts integer default null,
    max_attempts integer default null
) returns setof :schema._private_jobs
language sql
as $ferryman$
    update :schema._private_jobs as job
    set
        run_at = coalesce(reschedule_jobs.run_at, job.run_at),
        priority = coalesce(cast(reschedule_jobs.priority as smallint), job.priority),
        attempts = coalesce(cast(reschedule_jobs.attempts as smallint), job.attempts),
        max_attempts = coalesce(cast(reschedule_jobs.max_attempts as smallint), job.max_attempts),
        updated_at = pg_catalog.now()
    where job.id operator(pg_catalog.=) any (job_ids) and (job.locked_at is null or job.locked_at operator(pg_catalog.<) (pg_catalog.now() operator(pg_catalog.-) interval '4 hours'))
    returning *
$ferryman$;
