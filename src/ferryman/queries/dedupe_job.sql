-- Add a job unless its key is taken, whatever became of the job that has it.
-- Locks: the row that has the key.
select
    -- include: job_columns
from
    :schema.add_job(
        identifier => cast(:identifier as text),
        payload => cast(cast(:payload as text) as json),
        queue_name => cast(:queue_name as text),
        run_at => cast(:run_at as timestamptz),
        max_attempts => cast(:max_attempts as int),
        job_key => cast(:job_key as text),
        priority => cast(:priority as int),
        flags => cast(:flags as text[]),
        job_key_mode => 'unsafe_dedupe'
    ) as job
    -- include: job_names
where job.id is not null;
