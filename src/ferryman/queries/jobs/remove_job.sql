-- Delete the job that has a key; one that is running loses its key and is not retried.
-- Locks: that row.
select
    -- include: parts/job_columns
from
    :schema.remove_job(cast(:job_key as pg_catalog.text)) as job
    -- include: parts/job_names
where job.id is not null;
