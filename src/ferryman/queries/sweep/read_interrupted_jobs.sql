-- These jobs as they stand, in the order of their ids. Locks nothing.
select
    -- include: parts/job_columns
from
    unnest(cast(:job_ids as bigint[])) as wanted (id)
    cross join lateral (select * from :schema._private_jobs as found where found.id = wanted.id offset 0) as job
    -- include: parts/job_names
order by job.id;
