-- needs: row job, row task, row queue
-- gives: columns
-- The columns of a job that clients see; `ferryman.queries.job_rows` makes a `Job` of it. Comes with parts/job_names.sql.
-- A time that no driver can decode is null in its own column, and text in the last one.
job.id,
coalesce(task.identifier, ''),
cast(job.payload as pg_catalog.text),
queue.queue_name,
job.priority,
case
    when
        job.run_at operator(pg_catalog.>=) pg_catalog.timestamptz '0001-01-03 00:00Z'
        and job.run_at operator(pg_catalog.<=) pg_catalog.timestamptz '9999-12-30 00:00Z'
        then job.run_at
end,
job.attempts,
job.max_attempts,
job.last_error,
case
    when
        job.created_at operator(pg_catalog.>=) pg_catalog.timestamptz '0001-01-03 00:00Z'
        and job.created_at operator(pg_catalog.<=) pg_catalog.timestamptz '9999-12-30 00:00Z'
        then job.created_at
end,
case
    when
        job.updated_at operator(pg_catalog.>=) pg_catalog.timestamptz '0001-01-03 00:00Z'
        and job.updated_at operator(pg_catalog.<=) pg_catalog.timestamptz '9999-12-30 00:00Z'
        then job.updated_at
end,
job.key,
case
    when
        job.locked_at operator(pg_catalog.>=) pg_catalog.timestamptz '0001-01-03 00:00Z'
        and job.locked_at operator(pg_catalog.<=) pg_catalog.timestamptz '9999-12-30 00:00Z'
        then job.locked_at
end,
job.locked_by,
job.revision,
case
    when pg_catalog.jsonb_typeof(job.flags) operator(pg_catalog.=) 'object'
        then array(select pg_catalog.jsonb_object_keys(job.flags))
end,
-- include: parts/job_state
,
case
    when
        least(job.run_at, job.created_at, job.updated_at, job.locked_at)
        operator(pg_catalog.<) pg_catalog.timestamptz '0001-01-03 00:00Z'
        or greatest(job.run_at, job.created_at, job.updated_at, job.locked_at)
        operator(pg_catalog.>) pg_catalog.timestamptz '9999-12-30 00:00Z'
        then array[
            cast(job.run_at at time zone 'UTC' as pg_catalog.text),
            cast(job.created_at at time zone 'UTC' as pg_catalog.text),
            cast(job.updated_at at time zone 'UTC' as pg_catalog.text),
            cast(job.locked_at at time zone 'UTC' as pg_catalog.text)
        ]
end
