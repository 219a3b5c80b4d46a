-- How many jobs there are in each state. Reads all jobs. Locks nothing.
select
    -- include: parts/job_state
    as state,
    pg_catalog.count(*)
from :schema._private_jobs as job
group by state;
