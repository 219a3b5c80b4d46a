-- permanently_fail_jobs: use all attempts of jobs, unless a worker runs them. Locks: their rows.
create or replace function :schema.permanently_fail_jobs(job_ids bigint[], error_message text default null)
returns setof :schema._private_jobs
language sql
as $ferryman$
    update :schema._private_jobs
    set
        last_error = coalesce(error_message, 'Manually marked as failed'),
        attempts = max_attempts,
        updated_at = pg_catalog.now()
    where id operator(pg_catalog.=) any (job_ids) and (locked_at is null or locked_at operator(pg_catalog.<) (pg_catalog.now() operator(pg_catalog.-) interval '4 hours'))
    returning *
$ferryman$;
