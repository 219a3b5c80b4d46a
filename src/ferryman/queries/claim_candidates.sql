-- Part of the claims: take the candidates, in the order of priority, run_at and id, until there are enough.
--
-- suitable   candidates without a queue
-- head       candidates with one, each the first of its queue
-- extent     whether more candidates may lie beyond what was looked at
--
-- When nothing could be claimed, one row comes back that says what to expect instead.
--
-- Locks: the rows of the jobs and queues that are claimed, and now and then a few more until this statement ends. What
-- others have locked is skipped, never waited for. A queue that is busy, or idle but not wanted, is not locked.
-- Each candidate is looked up by its place, which needs no index: to a planner that takes the table for empty, as it does
-- after each vacuum of a drained queue, a join would look just as good, and read the whole backlog. A row that has left
-- its place since is not what it was, and left alone. A row that is locked stays in its place until it is changed.
unqueued as (
    select locked.*
    from
        (
            select suitable.place
            from suitable
            where suitable.job_queue_id is null
            order by suitable.priority, suitable.run_at, suitable.id
        ) as candidate
        cross join lateral (
            select job.ctid as place, job.id, job.priority, job.run_at, cast(null as tid) as queue_place
            from :schema._private_jobs as job
            where job.ctid = candidate.place and job.locked_at is null and job.attempts < job.max_attempts
            for update skip locked
        ) as locked
    limit cast(:wanted as int)
),
queued as (
    select locked.place, locked.id, locked.priority, locked.run_at, free_queue.place as queue_place
    from
        (select head.place from head order by head.priority, head.run_at, head.id) as candidate
        cross join lateral (
            select job.ctid as place, job.id, job.priority, job.run_at, job.job_queue_id
            from :schema._private_jobs as job
            where job.ctid = candidate.place and job.locked_at is null and job.attempts < job.max_attempts
            for update skip locked
        ) as locked
        cross join lateral (
            select queue.ctid as place
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
    where queue.ctid = any (array(select chosen.queue_place from chosen where chosen.queue_place is not null))
),
claimed as (
    update :schema._private_jobs as job
    set attempts = job.attempts + 1, locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where job.ctid = any (array(select chosen.place from chosen))
    returning job.*
),
outlook as (
    -- Looked at only when there was nothing to claim: when the next job is due, and whether our tasks still exist.
    select
        (
            select
                min(
                    case
                        when level.run_at > (select at from moment) then level.run_at
                        else (
                            select job.run_at
                            from :schema._private_jobs as job
                            where
                                job.is_available = true
                                and job.priority = level.priority
                                and job.run_at > (select at from moment)
                            order by job.run_at
                            limit 1
                        )
                    end
                )
            from level
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
    (select is_full from extent) as is_window_full,
    cast(extract(epoch from outlook.next_due_in) as float8),
    outlook.known_tasks
from
    claimed
    full join outlook on true
order by claimed.priority, claimed.run_at, claimed.id;
