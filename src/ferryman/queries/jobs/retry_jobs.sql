-- Let failed jobs run again at once, under their ids: no attempt is used, and no crash counts. Their last error stays.
--
-- :job_ids   the jobs; null for every failed job except superseded ones, which would run beside their successors
-- :task      only jobs of this task; null for any
--
-- Jobs that run, or have attempts left, stay as they are. Locks: the rows of the jobs.
with retried as (
    update :schema._private_jobs as job
    set
        attempts = 0,
        run_at = pg_catalog.now(),
        flags = case
            when pg_catalog.jsonb_typeof(job.flags) operator(pg_catalog.=) 'object'
                then (
                    select rest.flags
                    from (
                        select job.flags operator(pg_catalog.-) array[
                            'ferryman:crashed', 'ferryman:suspect', 'ferryman:alone', 'ferryman:superseded'
                        ] as flags
                    ) as rest
                    where rest.flags operator(pg_catalog.<>) pg_catalog.jsonb '{}'
                )
            else job.flags
        end,
        updated_at = pg_catalog.now()
    where
        job.locked_at is null
        and job.attempts operator(pg_catalog.>=) job.max_attempts
        -- Not an `or`, with which a few ids would cost a look at the whole table.
        and job.id operator(pg_catalog.=) any (
            coalesce(
                cast(:job_ids as bigint[]),
                array(
                    select failed.id
                    from :schema._private_jobs as failed
                    where
                        failed.attempts operator(pg_catalog.>=) failed.max_attempts
                        and failed.locked_at is null
                        and not coalesce(failed.flags operator(pg_catalog.?) 'ferryman:superseded', false)
                )
            )
        )
        and (
            cast(:task as pg_catalog.text) is null
            or job.task_id operator(pg_catalog.=) any (
                select named.id
                from :schema._private_tasks as named
                where named.identifier operator(pg_catalog.=) cast(:task as pg_catalog.text)
            )
        )
    returning job.*
)
select
    -- include: parts/job_columns
from
    retried as job
    -- include: parts/job_names
order by job.id;
