-- Delete jobs that are not running. Locks: their rows.
select
    -- include: job_columns
from
    :schema.complete_jobs(cast(:job_ids as bigint[])) as job
    -- include: job_names
;
