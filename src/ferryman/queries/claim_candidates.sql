-- Part of the claims: take the candidates, in the order of priority, run_at and id, until there are enough.
--
-- suitable   candidates; only those without a queue count
-- head       candidates with one, each the first of its queue
-- extent     whether more candidates may lie beyond what was looked at
--
-- When nothing could be claimed, one row comes back that says what to expect instead.
--
-- :done_tokens, :done_job_ids   jobs without a queue that this worker has finished, as in complete_claims.sql: they are
--                               deleted in passing, under the same fence. Unlike there, a row that somebody else has locked
--                               is not waited for. If not all are deleted, those that are come back with each row.
-- :done_count                   how many they are
-- :durable                      whether the claim shall be on disk before its jobs start, whatever it takes
--
-- Locks: the rows of the jobs and queues that are claimed, and now and then a few more until this statement ends. What
-- others have locked is skipped, never waited for. A queue that is busy, or idle but not wanted, is not locked.
-- Each candidate is looked up by its place, which needs no index: to a planner that takes the table for empty, as it does
-- after each vacuum of a drained queue, a join would look just as good, and read the whole backlog. A row that has left
-- its place since is not what it was, and left alone. A row that is locked stays in its place until it is changed.
-- The first candidates without a queue are locked all together, which is cheaper; mostly that is enough. If others were
-- faster with some of them, the rest is tried one by one.
done as (
    delete from :schema._private_jobs as job
    where
        job.ctid = any (
            array(
                select finished.place
                from
                    unnest(
                        cast(cast(:done_tokens as text) as bigint[]), cast(cast(:done_job_ids as text) as text[])
                    ) as claim (token, job_ids)
                    cross join lateral (
                        select job.ctid as place
                        from :schema._private_jobs as job
                        where
                            job.id = any (cast(claim.job_ids as bigint[]))
                            and job.locked_by = cast(:worker_id as text)
                            and job.locked_at = timestamptz 'epoch' + claim.token * interval '1 microsecond'
                        for update skip locked
                    ) as finished
            )
        )
    returning job.id
),
candidate as (
    select suitable.place
    from suitable
    where suitable.job_queue_id is null
    order by suitable.priority, suitable.run_at, suitable.id
),
first as (
    select job.ctid as place, job.id, job.priority, job.run_at
    from :schema._private_jobs as job
    where
        job.ctid = any (array(select candidate.place from candidate limit cast(:wanted as int)))
        and job.locked_at is null
        and job.attempts < job.max_attempts
    for update skip locked
),
further as (
    select locked.*
    from
        (select candidate.place from candidate offset cast(:wanted as int)) as candidate
        cross join lateral (
            select job.ctid as place, job.id, job.priority, job.run_at
            from :schema._private_jobs as job
            where job.ctid = candidate.place and job.locked_at is null and job.attempts < job.max_attempts
            for update skip locked
        ) as locked
    limit cast(:wanted as int) - (select count(*) from first)
),
queued as (
    select locked.place, locked.id, locked.priority, locked.run_at, free_queue.place as queue_place, free_queue.id as queue_id
    from
        (select head.place from head order by head.priority, head.run_at, head.id) as candidate
        cross join lateral (
            select job.ctid as place, job.id, job.priority, job.run_at, job.job_queue_id
            from :schema._private_jobs as job
            where job.ctid = candidate.place and job.locked_at is null and job.attempts < job.max_attempts
            for update skip locked
        ) as locked
        cross join lateral (
            select queue.ctid as place, queue.id
            from :schema._private_job_queues as queue
            where queue.id = locked.job_queue_id and queue.locked_at is null
            for update skip locked
        ) as free_queue
    limit cast(:wanted as int)
),
chosen as (
    select *
    from
        (
            select first.*, cast(null as tid) as queue_place, cast(null as int) as queue_id from first
            union all
            select further.*, cast(null as tid), cast(null as int) from further
            union all
            select * from queued
        ) as locked
    order by locked.priority, locked.run_at, locked.id
    limit cast(:wanted as int)
),
busy_queue as (
    update :schema._private_job_queues as queue
    set locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where queue.ctid = any (array(select chosen.queue_place from chosen where chosen.queue_place is not null))
    returning queue.id
),
claimed as (
    update :schema._private_jobs as job
    set attempts = job.attempts + 1, locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where
        job.ctid = any (
            array(
                select chosen.place
                from chosen
                -- A queue that was taken and freed again since this statement began is not where it was, and not ours.
                where chosen.queue_id is null or chosen.queue_id in (select busy_queue.id from busy_queue)
            )
        )
    returning job.*
),
haste as (
    -- Unless it shall be, the claim need not be on disk: if the server crashes before, these jobs are run again. But two jobs
    -- of a named queue must not run at once even then, and what is completed stays completed.
    select set_config('synchronous_commit', 'off', true)
    where
        not cast(:durable as boolean)
        and cast(:done_count as int) = 0
        and not exists (select from chosen where chosen.queue_place is not null)
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
    (select cast(extract(epoch from at) * 1000000 as bigint) from moment) as token,
    case when claimed.job_queue_id is not null then
        (select queue.queue_name from :schema._private_job_queues as queue where queue.id = claimed.job_queue_id)
    end,
    claimed.priority,
    claimed.run_at,
    claimed.last_error,
    claimed.created_at,
    claimed.updated_at,
    claimed.key,
    claimed.revision,
    case jsonb_typeof(claimed.flags) when 'object' then array(select jsonb_object_keys(claimed.flags)) end,
    (select is_full from extent) as is_window_full,
    cast(extract(epoch from outlook.next_due_in) as float8),
    outlook.known_tasks,
    case when (select count(*) from done) < cast(:done_count as int) then array(select done.id from done) end as done,
    (select count(*) from haste) as haste -- nobody reads it, but otherwise nobody would do it
from
    claimed
    full join outlook on true
order by claimed.priority, claimed.run_at, claimed.id;
