-- Claim up to :wanted due jobs, in the order of priority, run_at and id, at most one per named queue.
--
-- :worker_id, :task_ids   who asks, and for which tasks
-- :wanted                 free slots
-- :window                 how many due jobs to look at; what lies beyond is left to claim_beyond.sql
-- :now                    the caller's clock, or null for the database's
-- :forbidden_flags        jobs with any of these are left alone
--
-- The index leads with the priority, so each priority is probed on its own: jobs that are not due yet cost one probe,
-- however many they are. The window bounds what jobs of other tasks, or of one deep queue, can cost.
--
-- When nothing could be claimed, one row comes back that says what to expect instead.
--
-- Locks: the rows of the jobs and queues that are claimed, and now and then a few more until this statement ends.
-- Each candidate is looked up by its id, one by one (lateral) or by an array of ids, and without naming is_available: to a
-- planner that takes the table for empty, as it does after each vacuum of a drained queue, a join or the partial index
-- would look just as good, and both read the whole backlog. What others have locked is skipped, never waited for. A queue that is busy or idle but not wanted is not locked.
with recursive
moment as (
    select coalesce(cast(:now as timestamptz), now()) as at
),
level as (
    (select job.priority from :schema._private_jobs as job where job.is_available = true order by job.priority limit 1)
    union all
    select (
        select job.priority
        from :schema._private_jobs as job
        where job.is_available = true and job.priority > level.priority
        order by job.priority
        limit 1
    )
    from level
    where level.priority is not null
),
seen as (
    select due.*
    from
        level
        cross join lateral (
            select job.id, job.priority, job.run_at, job.task_id, job.job_queue_id, job.flags
            from :schema._private_jobs as job
            where
                job.is_available = true
                and job.priority = level.priority
                and job.run_at <= (select at from moment)
            order by job.run_at
            limit cast(:window as int)
        ) as due
    limit cast(:window as int)
),
suitable as (
    select seen.id, seen.priority, seen.run_at, seen.job_queue_id
    from seen
    where
        seen.task_id = any (cast(:task_ids as int[]))
        and (cast(:forbidden_flags as text[]) is null or (seen.flags ?| cast(:forbidden_flags as text[])) is not true)
),
head as (
    select distinct on (suitable.job_queue_id) suitable.*
    from suitable
    where suitable.job_queue_id is not null
    order by suitable.job_queue_id, suitable.priority, suitable.run_at, suitable.id
),
unqueued as (
    select locked.*
    from
        (
            select suitable.id
            from suitable
            where suitable.job_queue_id is null
            order by suitable.priority, suitable.run_at, suitable.id
        ) as candidate
        cross join lateral (
            select job.id, job.priority, job.run_at, job.job_queue_id
            from :schema._private_jobs as job
            where job.id = candidate.id and job.locked_at is null and job.attempts < job.max_attempts
            for update skip locked
        ) as locked
    limit cast(:wanted as int)
),
queued as (
    select locked.*
    from
        (select head.id from head order by head.priority, head.run_at, head.id) as candidate
        cross join lateral (
            select job.id, job.priority, job.run_at, job.job_queue_id
            from :schema._private_jobs as job
            where job.id = candidate.id and job.locked_at is null and job.attempts < job.max_attempts
            for update skip locked
        ) as locked
        cross join lateral (
            select
            from :schema._private_job_queues as queue
            where queue.id = locked.job_queue_id and queue.locked_at is null
            for update skip locked
        ) as free_queue
    limit cast(:wanted as int)
),
chosen as (
    select *
    from (select * from unqueued union all select * from queued) as locked
    order by locked.priority, locked.run_at, locked.id
    limit cast(:wanted as int)
),
busy_queue as (
    update :schema._private_job_queues as queue
    set locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where queue.id = any (array(select chosen.job_queue_id from chosen where chosen.job_queue_id is not null))
),
claimed as (
    update :schema._private_jobs as job
    set attempts = job.attempts + 1, locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where job.id = any (array(select chosen.id from chosen))
    returning job.*
),
outlook as (
    -- Looked at only when there was nothing to claim: when the next job is due, and whether our tasks still exist.
    select
        (
            select min(next.run_at)
            from
                level
                cross join lateral (
                    select job.run_at
                    from :schema._private_jobs as job
                    where
                        job.is_available = true
                        and job.priority = level.priority
                        and job.run_at > (select at from moment)
                    order by job.run_at
                    limit 1
                ) as next
        ) - (select at from moment) as next_due_in,
        (
            select count(*) from :schema._private_tasks as task where task.id = any (cast(:task_ids as int[]))
        ) as known_tasks
    where not exists (select from claimed)
)
select
    claimed.id,
    claimed.task_id,
    cast(claimed.payload as text),
    claimed.attempts,
    claimed.max_attempts,
    claimed.job_queue_id,
    cast(extract(epoch from claimed.locked_at) * 1000000 as bigint) as token,
    (select queue.queue_name from :schema._private_job_queues as queue where queue.id = claimed.job_queue_id),
    claimed.priority,
    claimed.run_at,
    claimed.last_error,
    claimed.created_at,
    claimed.updated_at,
    claimed.key,
    claimed.locked_at,
    claimed.revision,
    case jsonb_typeof(claimed.flags) when 'object' then array(select jsonb_object_keys(claimed.flags)) end,
    (select count(*) from seen) >= cast(:window as int) as is_window_full,
    cast(extract(epoch from outlook.next_due_in) as float8),
    outlook.known_tasks
from
    claimed
    full join outlook on true
order by claimed.priority, claimed.run_at, claimed.id;
