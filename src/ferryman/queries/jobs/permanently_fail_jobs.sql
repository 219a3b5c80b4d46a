-- Fail jobs for good that are not running: they have no attempt left. Locks: their rows.
select
    -- include: parts/job_columns
from
    :schema.permanently_fail_jobs(cast(:job_ids as bigint[]), cast(:reason as pg_catalog.text)) as job
    -- include: parts/job_names
;
