select
    -- include: parts/job_state
    as state,
    pg_catalog.count(*)
from :schema._private_jobs as job
group by state;
