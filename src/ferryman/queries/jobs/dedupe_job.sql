-- Add a job unless another job has its key, in any state.
-- Locks: the row that has the key.
select
    -- include: parts/job_columns
from
    :schema.add_job(
        identifier => cast(:identifier as pg_catalog.text),
        payload => cast(cast(:payload as pg_catalog.text) as pg_catalog.json),
        queue_name => cast(:queue_name as pg_catalog.text),
        run_at => coalesce(
            cast(:run_at as pg_catalog.timestamptz),
            pg_catalog.now() operator(pg_catalog.+) pg_catalog.make_interval(secs => cast(:delay as pg_catalog.float8))
        ),
        max_attempts => cast(:max_attempts as int),
        job_key => cast(:job_key as pg_catalog.text),
        priority => cast(:priority as int),
        flags => cast(:flags as pg_catalog.text[]),
        job_key_mode => 'unsafe_dedupe'
    ) as job
    -- include: parts/job_names
where job.id is not null;
