select
    -- include: job_state
    as state,
    count(*)
from :schema._private_jobs as job
group by state;
