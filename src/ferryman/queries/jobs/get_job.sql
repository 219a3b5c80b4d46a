-- One job, in any state. Locks nothing.
select
    -- include: parts/job_columns
from
    :schema._private_jobs as job
    -- include: parts/job_names
where job.id operator(pg_catalog.=) cast(:job_id as bigint);
