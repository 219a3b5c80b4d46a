-- Change when, how soon and how often jobs that are not running will run. Locks: their rows.
select
    -- include: parts/job_columns
from
    :schema.reschedule_jobs(
        cast(:job_ids as bigint[]),
        run_at => cast(:run_at as pg_catalog.timestamptz),
        priority => cast(:priority as int),
        attempts => cast(:attempts as int),
        max_attempts => cast(:max_attempts as int)
    ) as job
    -- include: parts/job_names
;
