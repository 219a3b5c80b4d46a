-- The facts that decide what happens to jobs of dead workers, in the order of their ids.
--
-- Must come after lock_interrupted_jobs.sql as a statement of its own: a start mark that was written just before the row
-- was locked is seen only now.
-- The policies in the dead worker's own row come first. The stored ones are for workers that left no row, or no policies
-- in it.
-- Crashes count from the time in the job's flag on. An ordinary end of an attempt removes the flag, and so do a failure for
-- good and a job that replaces this one by its key.
-- Locks nothing.
select
    job.id,
    job.locked_by,
    claim.token,
    coalesce(task.identifier, ''),
    job.attempts,
    -- include: parts/is_superseded
    as is_superseded,
    case
        when job.flags ? 'ferryman:alone' then 'alone'
        when job.flags ? 'ferryman:suspect' then 'suspect'
        when job.flags ? 'ferryman:crashed' then 'crashed'
        else 'none'
    end as suspicion,
    exists (
        select
        from :schema._ferryman_started_jobs as mark
        where mark.job_id = job.id and mark.locked_by = job.locked_by and mark.locked_at = job.locked_at
    ) as is_marked,
    coalesce(
        holder.metadata -> 'waiting' -> cast(claim.token as text) @> to_jsonb(job.id),
        false
    ) as is_waiting,
    coalesce(holder.metadata -> 'suspects' = jsonb 'true', false) as isolates,
    coalesce(jsonb_typeof(holder.metadata -> 'policies') = 'object', false) as own_policies,
    case
        when jsonb_typeof(holder.metadata -> 'policies') = 'object' then
            case jsonb_typeof(holder.metadata -> 'policies' -> task.identifier)
                when 'object' then holder.metadata -> 'policies' -> task.identifier
            end
        else stored.policy
    end as policy,
    cast(holder.metadata -> 'max_crashes' as text) as own_max_crashes,
    crash.count,
    crash.places
from
    unnest(cast(:job_ids as bigint[])) as wanted (id)
    cross join lateral (
        select found.tableoid, found.* from :schema._private_jobs as found where found.id = wanted.id offset 0
    ) as job
    cross join lateral (
        -- A lock may have been dated 'infinity' by hand; these two stand for it, and recover_jobs.sql knows them.
        select
            case
                when job.locked_at = timestamptz 'infinity' then 9223372036854775807
                when job.locked_at = timestamptz '-infinity' then -9223372036854775808
                else cast(extract(epoch from job.locked_at) * 1000000 as bigint)
            end as token
    ) as claim
    left join lateral (
        select named.identifier from :schema._private_tasks as named where named.id = job.task_id
    ) as task on true
    left join lateral (
        select to_jsonb(known) as policy
        from :schema._ferryman_task_policies as known
        where known.task_identifier = task.identifier
    ) as stored on true
    left join lateral (
        select
            coalesce(
                (select worker.metadata from :schema._private_workers as worker where worker.id = job.locked_by),
                (select lost.metadata from :schema._ferryman_lost_workers as lost where lost.worker_id = job.locked_by)
            ) as metadata
        offset 0
    ) as holder on true
    cross join lateral (
        select
            case jsonb_typeof(job.flags -> 'ferryman:crashed')
                when 'number'
                    then timestamptz 'epoch'
                        + cast(least(cast(job.flags -> 'ferryman:crashed' as numeric), 9e15) as bigint)
                        * interval '1 microsecond'
            end as at
    ) as since
    cross join lateral (
        select
            count(*) as count,
            array_agg(
                past.worker_id || ' at ' || to_char(past.noticed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                order by past.noticed_at, past.id
            ) as places
        from :schema._ferryman_crashes as past
        where
            past.job_id = job.id
            and past.noticed_at >= since.at
            and past.noticed_at > now() - cast(:crash_window as float8) * interval '1 second'
            and past.started is not false
            and past.decision <> 'superseded'
    ) as crash
order by job.id;
