-- Delete jobs that are not running. Locks: their rows.
select
    -- include: parts/job_columns
from
    :schema.complete_jobs(cast(:job_ids as bigint[])) as job
    -- include: parts/job_names
;
