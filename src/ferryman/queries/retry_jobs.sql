-- Let failed jobs run again at once, under their ids: no attempt is used, and no crash counts. Their last error stays.
--
-- :job_ids  which ones; null for every failed job
-- :task     only jobs of this task; null for any
--
-- Jobs that run, or have attempts left, stay as they are. Locks: the rows of the jobs.
with retried as (
    update :schema._private_jobs as job
    set
        attempts = 0,
        run_at = now(),
        flags = case jsonb_typeof(job.flags)
            when 'object'
                then nullif(job.flags - array['ferryman:crashed', 'ferryman:suspect', 'ferryman:alone'], jsonb '{}')
            else job.flags
        end,
        updated_at = now()
    where
        job.locked_at is null
        and job.attempts >= job.max_attempts
        and (cast(:job_ids as bigint[]) is null or job.id = any(cast(:job_ids as bigint[])))
        and (
            cast(:task as text) is null
            or job.task_id in (
                select named.id from :schema._private_tasks as named where named.identifier = cast(:task as text)
            )
        )
    returning job.*
)
select
    -- include: job_columns
from
    retried as job
    -- include: job_names
order by job.id;
