select
    -- include: job_columns
from
    :schema._private_jobs as job
    -- include: job_names
where job.id = cast(:job_id as bigint);
