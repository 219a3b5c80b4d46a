-- What there is to know about jobs that dead workers hold, in the order of their ids.
--
-- Must come after lock_interrupted_jobs.sql as a statement of its own: a start mark that was written just before the row
-- was locked is seen only now.
-- Crashes count from the last time that the job failed for good because of them: whoever lets it run again means it.
-- Locks nothing.
select
    job.id,
    job.locked_by,
    -- Somebody may have dated a lock 'infinity'; these two stand for it, and recover_jobs.sql knows them.
    case
        when job.locked_at = timestamptz 'infinity' then 9223372036854775807
        when job.locked_at = timestamptz '-infinity' then -9223372036854775808
        else cast(extract(epoch from job.locked_at) * 1000000 as bigint)
    end,
    coalesce(task.identifier, ''),
    job.attempts,
    -- include: is_superseded
    as is_superseded,
    coalesce(job.last_error = 'Job recovered after worker interruption', false) as has_crashed,
    exists (
        select
        from :schema._ferryman_started_jobs as mark
        where mark.job_id = job.id and mark.locked_by = job.locked_by and mark.locked_at = job.locked_at
    ) as is_marked,
    policy.on_crash,
    policy.retry_base_seconds,
    policy.retry_step_seconds,
    policy.retry_most_seconds,
    policy.retry_jitter,
    crash.known,
    crash.unknown,
    crash.places
from
    unnest(cast(:job_ids as bigint[])) as wanted (id)
    cross join lateral (
        select found.tableoid, found.* from :schema._private_jobs as found where found.id = wanted.id offset 0
    ) as job
    left join lateral (
        select named.identifier from :schema._private_tasks as named where named.id = job.task_id
    ) as task on true
    left join lateral (
        select * from :schema._ferryman_task_policies as stored where stored.task_identifier = task.identifier
    ) as policy on true
    cross join lateral (
        select
            count(*) filter (where past.started) as known,
            count(*) filter (where past.started is null) as unknown,
            array_agg(
                past.worker_id || ' at ' || to_char(past.noticed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                order by past.noticed_at, past.id
            ) filter (where past.started is not false) as places
        from :schema._ferryman_crashes as past
        where
            past.job_id = job.id
            and past.noticed_at > now() - cast(:crash_window as float8) * interval '1 second'
            and past.id > coalesce(
                (
                    select max(final.id)
                    from :schema._ferryman_crashes as final
                    where final.job_id = job.id and final.decision = 'poisoned'
                ),
                0
            )
    ) as crash
order by job.id;
