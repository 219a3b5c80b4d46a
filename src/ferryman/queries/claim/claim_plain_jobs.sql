-- Claim at most :wanted due jobs that have no queue. The cheap claim, tried first.
--
-- Looks at the first :window available jobs. If no job with a queue that this worker may run stands before the last of those
-- that it wants, it claims the same jobs as claim_jobs.sql and leaves them in the same state, with a third of the plan: for a
-- few jobs, setting up a large plan costs more than the claim. If one does, it claims nothing and reports the window as full,
-- and the caller continues with claim_jobs.sql. If it took all that is due, the header says so, and when the next job is due,
-- so the worker can sleep until then.
--
-- The window is read only as far as needed: nothing before the lock asks for all of it. So it may be large, and rows that
-- other workers are taking are passed by where they stand in the window, without a second look. Jobs of the same priority
-- and run_at are taken in the order of the index, and returned in the order of their ids.
--
-- :worker_id         the worker that claims
-- :task_ids          an array literal: the tasks that it has
-- :wanted            how many jobs to claim at most
-- :window            how many available jobs to look at
-- :durable           whether the claim must be on disk before its jobs start
-- Others: see parts/claim_moment.sql, parts/is_allowed.sql and parts/complete_in_passing.sql.
--
-- Returns: see parts/claim_rows.sql.
-- Locks: the claimed rows, one at a time. Rows that another session has locked are skipped, never waited for.
with
-- include: parts/claim_moment
-- include: parts/complete_in_passing
window_jobs as (
    select
        job.ctid as row_ctid,
        job.run_at,
        job.job_queue_id,
        job.task_id = any (cast(:task_ids as int[]))
        and
        -- include: parts/is_allowed
        and (
            job.job_queue_id is not null
            or
            -- include: parts/is_unmarked
        )
        as is_worth_a_try
    from :schema._private_jobs as job
    where job.is_available = true
    order by job.priority, job.run_at
    limit cast(:window as int)
),
found as (
    -- Without an id: one that has a queue.
    select locked.*
    from
        window_jobs
        left join lateral (
            select job.ctid as row_ctid, job.id, job.priority, job.run_at
            from :schema._private_jobs as job
            where
                job.ctid = window_jobs.row_ctid
                and window_jobs.job_queue_id is null
                and job.locked_at is null
                and job.attempts < job.max_attempts
            for update skip locked
        ) as locked on locked.row_ctid = window_jobs.row_ctid
    where
        window_jobs.is_worth_a_try
        and window_jobs.run_at <= (select at from moment)
        and (locked.id is not null or window_jobs.job_queue_id is not null)
    limit cast(:wanted as int)
),
locked_jobs as (
    select found.* from found where not exists (select from found where found.id is null)
),
counts as (
    -- Counted only when too few were found: then the whole window was read.
    select
        count(*) as seen,
        count(*) filter (where window_jobs.run_at <= (select at from moment)) as due,
        min(window_jobs.run_at) filter (
            where window_jobs.run_at > (select at from moment) and window_jobs.run_at < 'infinity'
        ) - (select at from moment) as next_due_in
    from window_jobs
    where (select count(*) from locked_jobs) < cast(:wanted as int)
),
claimed as (
    update :schema._private_jobs as job
    set attempts = job.attempts + 1, locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where job.ctid = any (array(select locked_jobs.row_ctid from locked_jobs))
    returning job.*
),
relaxed_commit as (
    select set_config('synchronous_commit', 'off', true)
    where not cast(:durable as boolean) and cast(:done_count as int) = 0
),
header as (
    select
        (select cast(extract(epoch from at) * 1000000 as bigint) from moment) as token,
        exists (select from found where found.id is null) or counts.seen >= cast(:window as int) as is_window_full,
        cast(extract(epoch from counts.next_due_in) as float8) as next_due_in,
        cast(null as bigint) as known_tasks,
        counts.due = (select count(*) from locked_jobs) and counts.seen < cast(:window as int) as took_all,
        case when (select count(*) from done) < cast(:done_count as int) then array(select done.id from done) end as done,
        array(select locked_jobs.id from locked_jobs order by locked_jobs.priority, locked_jobs.run_at, locked_jobs.id) as job_ids,
        (select count(*) from relaxed_commit) as relaxed_commit -- unused, but a CTE that nothing refers to does not run
    from counts
)
-- include: parts/claim_rows
