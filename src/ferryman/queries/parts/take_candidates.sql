-- Part of the claims: take the candidates, in the order of priority, run_at and id, until there are enough.
--
-- suitable   candidates; only those without a queue count
-- head       candidates with one, each the first of its queue
-- extent     whether more candidates may lie beyond what was looked at
-- edge       then the priority and run_at of the last that was looked at: jobs of their like may lie beyond it
--
-- First comes a row that tells about the claim; when nothing could be claimed, also what to expect instead. Then comes a
-- row for each job, in any order: to sort the names of jobs is cheaper than to sort all that is known about them.
--
-- :durable                      whether the claim shall be on disk before its jobs start, whatever it takes
--
-- Locks: the rows of the jobs and queues that are claimed, and now and then a few more until this statement ends. What
-- others have locked is skipped, never waited for. A queue that is busy, or idle but not wanted, is not locked.
-- Each candidate is looked up by its place, which needs no index: to a planner that takes the table for empty, as it does
-- after each vacuum of a drained queue, a join would look just as good, and read the whole backlog. A row that has left
-- its place since is not what it was, and left alone: its queue too. Servers before 14.20, 15.15, 16.11 and 17.7 follow such
-- a row to its new place and lock it there, so the place is compared once more. A row that is locked stays in its place
-- until it is changed.
-- The first candidates without a queue are locked all together, which is cheaper; mostly that is enough. If others were
-- faster with some of them, the rest is tried one by one.
-- The jobs of a queue are taken in the order of priority, run_at and id, always. So at the edge, where others of the same
-- priority and run_at may lie beyond, the index by queue is asked for the first of them.
-- include: parts/complete_in_passing
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
        and
        -- include: parts/is_unmarked
    for update skip locked
),
further as (
    select locked.*
    from
        (select candidate.place from candidate offset cast(:wanted as int)) as candidate
        cross join lateral (
            select job.ctid as place, job.id, job.priority, job.run_at
            from :schema._private_jobs as job
            where
                job.ctid = candidate.place
                and job.locked_at is null
                and job.attempts < job.max_attempts
                and
                -- include: parts/is_unmarked
            for update skip locked
        ) as locked
    where locked.place = candidate.place
    limit cast(:wanted as int) - (select count(*) from first)
),
queued as (
    select locked.place, locked.id, locked.priority, locked.run_at, free_queue.place as queue_place, free_queue.id as queue_id
    from
        (select * from head order by head.priority, head.run_at, head.id) as candidate
        cross join lateral (
            select
                case
                    when (candidate.priority, candidate.run_at) = (select edge.priority, edge.run_at from edge) then (
                        select alike.place
                        from
                            unnest(cast(:task_ids as int[])) as task (id)
                            cross join lateral (
                                select job.ctid as place, job.id, job.run_at
                                from :schema._private_jobs as job
                                where
                                    job.locked_at is null
                                    and job.attempts < job.max_attempts
                                    and job.task_id = task.id
                                    and job.job_queue_id = candidate.job_queue_id
                                    and job.priority = candidate.priority
                                    and job.run_at >= candidate.run_at
                                    and
                                    -- include: parts/is_allowed
                                order by job.run_at, job.id
                                limit 1
                            ) as alike
                        order by alike.run_at, alike.id
                        limit 1
                    )
                    else candidate.place
                end as place
            offset 0
        ) as foremost
        cross join lateral (
            select job.ctid as place, job.id, job.priority, job.run_at, job.job_queue_id
            from :schema._private_jobs as job
            where
                job.ctid = foremost.place
                and job.locked_at is null
                and job.attempts < job.max_attempts
                and
                -- include: parts/is_unmarked
            for update skip locked
        ) as locked
        cross join lateral (
            select queue.ctid as place, queue.id
            from :schema._private_job_queues as queue
            where
                locked.place = foremost.place
                and queue.id = locked.job_queue_id
                and queue.locked_at is null
                and (
                    age(queue.xmax) <> all (cast((select under_way from moment) as int[]))
                    and age(queue.xmax) not between -100 and (select youngest from moment)
                    or mxid_age(queue.xmax) > 0
                )
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
                -- Some versions of PostgreSQL cannot subtract from infinity.
                nullif(min(
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
                ), 'infinity')
            from level
        ) - (select at from moment) as next_due_in,
        (
            select count(*) from :schema._private_tasks as task where task.id = any (cast(:task_ids as int[]))
        ) as known_tasks
    where not exists (select from claimed)
)
select
    -- include: parts/no_claim
    (select cast(extract(epoch from at) * 1000000 as bigint) from moment) as token,
    (select is_full from extent) as is_window_full,
    (select cast(extract(epoch from outlook.next_due_in) as float8) from outlook) as next_due_in,
    (select outlook.known_tasks from outlook) as known_tasks,
    cast(null as boolean) as took_all,
    case when (select count(*) from done) < cast(:done_count as int) then array(select done.id from done) end as done,
    array(select chosen.id from chosen) as job_ids,
    (select count(*) from haste) as haste -- nobody reads it, but otherwise nobody would do it
-- include: parts/claim_rows
