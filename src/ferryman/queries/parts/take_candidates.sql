-- needs: moment, shared, level, suitable, head, extent, edge
-- gives: done, chosen, claimed, header
-- Take the candidates, in the order of priority, run_at and id, until there are enough. The common end of both claims that
-- look at queues.
--
-- suitable   candidates. Only those without a queue are taken from here
-- head       candidates with a queue, each the first of its queue
-- extent     is_full: whether more candidates may lie beyond what was looked at
-- edge       if so, priority and run_at of the last job that was looked at: others like it may lie beyond
--
-- Parameters: see claim_jobs.sql.
--
-- When nothing could be claimed, the header also says when the next job is due and how many of our tasks exist.
--
-- Locks: the rows of the jobs and queues that are claimed, and now and then a few more until this statement ends. Rows that
-- another session has locked are skipped, never waited for. A queue that is busy, or idle but not wanted, is not locked.
--
-- Each candidate is looked up by its ctid, which needs no index. A planner that takes the table for empty, as it does after
-- each vacuum of a drained queue, would find a join just as good, and read the whole backlog. A row whose ctid has changed
-- was updated meanwhile, and is skipped; so is its queue. Servers before 14.20, 15.15, 16.11 and 17.7 follow such a row to
-- its new ctid and lock it there, so the ctid is compared once more. A locked row keeps its ctid until it is changed.
--
-- The first candidates without a queue are locked all together, which is cheaper; mostly that is enough. If other workers
-- were faster with some of them, the rest is tried one by one.
--
-- The jobs of a queue are always taken in the order of priority, run_at and id. At the edge, where others of the same
-- priority and run_at may lie beyond, the index by queue is asked for the first of them.
-- include: parts/complete_in_passing
candidate as (
    select suitable.row_ctid
    from suitable
    where suitable.job_queue_id is null
    order by suitable.priority, suitable.run_at, suitable.id
),
try_together as (
    select job.ctid as row_ctid, job.id, job.priority, job.run_at
    from :schema._private_jobs as job
    where
        job.ctid = any (array(select candidate.row_ctid from candidate limit cast(:wanted as int)))
        and job.locked_at is null
        and job.attempts < job.max_attempts
        and
        -- include: parts/is_unmarked
    for update skip locked
),
retry_one_by_one as (
    select locked.*
    from
        (select candidate.row_ctid from candidate offset cast(:wanted as int)) as candidate
        cross join lateral (
            select job.ctid as row_ctid, job.id, job.priority, job.run_at
            from :schema._private_jobs as job
            where
                job.ctid = candidate.row_ctid
                and job.locked_at is null
                and job.attempts < job.max_attempts
                and
                -- include: parts/is_unmarked
            for update skip locked
        ) as locked
    where locked.row_ctid = candidate.row_ctid
    limit cast(:wanted as int) - (select count(*) from try_together)
),
from_queues as (
    select locked.row_ctid, locked.id, locked.priority, locked.run_at, free_queue.row_ctid as queue_ctid, free_queue.id as queue_id
    from
        (select * from head order by head.priority, head.run_at, head.id) as candidate
        cross join lateral (
            select
                case
                    when (candidate.priority, candidate.run_at) = (select edge.priority, edge.run_at from edge) then (
                        select alike.row_ctid
                        from
                            unnest(cast(:task_ids as int[])) as task (id)
                            cross join lateral (
                                select job.ctid as row_ctid, job.id, job.run_at
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
                    else candidate.row_ctid
                end as row_ctid
            offset 0
        ) as foremost
        cross join lateral (
            select job.ctid as row_ctid, job.id, job.priority, job.run_at, job.job_queue_id
            from :schema._private_jobs as job
            where
                job.ctid = foremost.row_ctid
                and job.locked_at is null
                and job.attempts < job.max_attempts
                and
                -- include: parts/is_unmarked
            for update skip locked
        ) as locked
        cross join lateral (
            select queue.ctid as row_ctid, queue.id
            from :schema._private_job_queues as queue
            where
                locked.row_ctid = foremost.row_ctid
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
            select try_together.*, cast(null as tid) as queue_ctid, cast(null as int) as queue_id from try_together
            union all
            select retry_one_by_one.*, cast(null as tid), cast(null as int) from retry_one_by_one
            union all
            select * from from_queues
        ) as locked
    order by locked.priority, locked.run_at, locked.id
    limit cast(:wanted as int)
),
busy_queue as (
    update :schema._private_job_queues as queue
    set locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where queue.ctid = any (array(select chosen.queue_ctid from chosen where chosen.queue_ctid is not null))
    returning queue.id
),
claimed as (
    update :schema._private_jobs as job
    set attempts = job.attempts + 1, locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where
        job.ctid = any (
            array(
                select chosen.row_ctid
                from chosen
                -- A queue that was taken and freed again since this statement began is not where it was, and not ours.
                where chosen.queue_id is null or chosen.queue_id in (select busy_queue.id from busy_queue)
            )
        )
    returning job.*
),
relaxed_commit as (
    -- Unless it shall be, the claim need not be on disk: if the server crashes before, these jobs are run again. But two jobs
    -- of a named queue must not run at once even then, and what is completed stays completed.
    select set_config('synchronous_commit', 'off', true)
    where
        not cast(:durable as boolean)
        and cast(:done_count as int) = 0
        and not exists (select from chosen where chosen.queue_ctid is not null)
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
),
header as (
    select
        (select cast(extract(epoch from at) * 1000000 as bigint) from moment) as token,
        (select is_full from extent) as is_window_full,
        (select cast(extract(epoch from outlook.next_due_in) as float8) from outlook) as next_due_in,
        (select outlook.known_tasks from outlook) as known_tasks,
        cast(null as boolean) as took_all,
        case when (select count(*) from done) < cast(:done_count as int) then array(select done.id from done) end as done,
        array(select chosen.id from chosen) as job_ids,
        (select count(*) from relaxed_commit) as relaxed_commit -- unused, but a CTE that nothing refers to does not run
)
-- include: parts/claim_rows
