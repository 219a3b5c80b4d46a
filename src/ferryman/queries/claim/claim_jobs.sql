-- Claim up to :wanted due jobs, in the order of priority, run_at and id, at most one per named queue.
--
-- :worker_id, :task_ids   who asks, and for which tasks
-- :wanted                 free slots
-- :window                 how many due jobs to look at, whoever they are for; see claim_jobs_by_task.sql for the rest
-- :now                    the caller's clock, or null for the database's
-- :forbidden_flags        jobs with any of these are left alone
--
-- The window bounds what jobs of other tasks, or of one deep queue, can cost. Mostly the first jobs of the index are all
-- due, and that is that; otherwise each priority is looked at on its own.
-- Locks: see parts/take_candidates.sql.
with recursive
-- include: parts/priority_levels
front as (
    select job.ctid as place, job.id, job.priority, job.run_at, job.task_id, job.job_queue_id, job.flags
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
    select front.*
    from front
    where not exists (select from front where front.run_at > (select at from moment))
    union all
    (
        select due.*
        from
            level
            cross join lateral (
                select job.ctid as place, job.id, job.priority, job.run_at, job.task_id, job.job_queue_id, job.flags
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
            and exists (select from front where front.run_at > (select at from moment))
        limit cast(:window as int)
    )
),
suitable as (
    select seen.place, seen.id, seen.priority, seen.run_at, seen.job_queue_id
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
