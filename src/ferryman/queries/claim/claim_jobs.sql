-- Claim at most :wanted due jobs, in the order of priority, run_at and id, at most one per named queue.
--
-- :worker_id         the worker that claims
-- :task_ids          an array literal: the tasks that it has
-- :wanted            how many jobs to claim at most
-- :window            how many due jobs to look at, of any task; claim_jobs_by_task.sql finds those beyond
-- :durable           whether the claim must be on disk before its jobs start
-- Others: see parts/claim_moment.sql, parts/is_allowed.sql and parts/complete_in_passing.sql.
--
-- The window bounds what jobs of other tasks, or of one deep queue, can cost. Mostly the first jobs of the index are all
-- due, and the window is read from them. Otherwise each priority is read on its own.
--
-- Returns: see parts/claim_rows.sql. Locks: see parts/take_candidates.sql.
with recursive
-- include: parts/priority_levels
window_jobs as (
    select job.ctid as row_ctid, job.id, job.priority, job.run_at, job.task_id, job.job_queue_id, job.flags
    from :schema._private_jobs as job
    where
        job.is_available = true
        and (
            job.job_queue_id is not null
            or
            -- include: parts/is_unmarked
        )
    order by job.priority, job.run_at
    limit cast(:window as int)
),
seen as (
    select window_jobs.*
    from window_jobs
    where not exists (select from window_jobs where window_jobs.run_at > (select at from moment))
    union all
    (
        select due.*
        from
            level
            cross join lateral (
                select job.ctid as row_ctid, job.id, job.priority, job.run_at, job.task_id, job.job_queue_id, job.flags
                from :schema._private_jobs as job
                where
                    job.is_available = true
                    and job.priority = level.priority
                    and job.run_at <= (select at from moment)
                    and (
                        job.job_queue_id is not null
                        or
                        -- include: parts/is_unmarked
                    )
                order by job.run_at
                limit cast(:window as int)
            ) as due
        where
            level.run_at <= (select at from moment)
            and exists (select from window_jobs where window_jobs.run_at > (select at from moment))
        limit cast(:window as int)
    )
),
suitable as (
    select seen.row_ctid, seen.id, seen.priority, seen.run_at, seen.job_queue_id
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
extent as (
    select (select count(*) from seen) >= cast(:window as int) as is_full
),
edge as (
    select seen.priority, seen.run_at
    from seen
    where (select extent.is_full from extent)
    order by seen.priority desc, seen.run_at desc
    limit 1
),
-- include: parts/take_candidates
