-- One page of jobs in the order of their ids. Null filters let everything through.
select
    -- include: parts/job_columns
from
    :schema._private_jobs as job
    -- include: parts/job_names
where
    job.id operator(pg_catalog.>) cast(:after as bigint)
    and (
        cast(:task as pg_catalog.text) is null
        or task.identifier operator(pg_catalog.=) cast(:task as pg_catalog.text)
    )
    and (
        cast(:queue_name as pg_catalog.text) is null
        or queue.queue_name operator(pg_catalog.=) cast(:queue_name as pg_catalog.text)
    )
    and (
        cast(:job_key as pg_catalog.text) is null
        or job.key operator(pg_catalog.=) cast(:job_key as pg_catalog.text)
    )
    and (
        cast(:flags as pg_catalog.text[]) is null
        or job.flags operator(pg_catalog.?&) cast(:flags as pg_catalog.text[])
    )
    and (
        cast(:state as pg_catalog.text) is null
        or cast(:state as pg_catalog.text) operator(pg_catalog.=)
        -- include: parts/job_state
    )
order by job.id
limit cast(:page_size as int);
