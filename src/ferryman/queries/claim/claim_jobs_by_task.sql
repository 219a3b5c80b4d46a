-- Claim as claim_jobs.sql does, when too many jobs that this worker may not claim stand in front. The most expensive claim.
--
-- :worker_id   the worker that claims
-- :task_ids    an array literal: the tasks that it has
-- :wanted      how many jobs to claim at most
-- :window      how many jobs without a queue to look at, how many that have one, and how many queues
-- :durable     whether the claim must be on disk before its jobs start
-- Others: see parts/claim_moment.sql, parts/is_allowed.sql and parts/complete_in_passing.sql.
--
-- Indexes lead past the jobs in front: past jobs of other tasks, an index by task; past a deep queue, an index that keeps
-- jobs with a queue apart, and a third that leads from the head of one queue to the head of the next. The third is used only
-- if the window is full of queues that are busy, or of the same few queues. Then either all heads are found, or the window
-- was too small for both ways, and is_window_full says so.
-- The order of the whole is kept even then: some of the heads, in the order of their queues, would be the wrong ones and are
-- not taken, and neither is a job that stands behind the last job with a queue that was looked at.
--
-- Each task is probed at each priority, which is why this claim comes last. The conditions are, word for word, those of the
-- indexes that are meant, so that no other index can be used.
--
-- Returns: see parts/claim_rows.sql. Locks: see parts/take_candidates.sql.
with recursive
-- include: parts/priority_levels
unqueued_level as (
    select -32769 as priority, timestamptz 'infinity' as run_at
    union all
    select next.priority, next.run_at
    from
        unqueued_level
        cross join lateral (
            select first.priority, first.run_at
            from
                unnest(cast(:task_ids as int[])) as task (id)
                cross join lateral (
                    select job.priority, job.run_at
                    from :schema._private_jobs as job
                    where
                        job.locked_at is null
                        and job.attempts < job.max_attempts
                        and job.job_queue_id is null
                        and job.task_id = task.id
                        and job.priority > unqueued_level.priority
                    order by job.priority, job.run_at
                    limit 1
                ) as first
            order by first.priority, first.run_at
            limit 1
        ) as next
),
unqueued_due as (
    select due.*
    from
        unqueued_level
        cross join lateral (
            select mine.*
            from
                unnest(cast(:task_ids as int[])) as task (id)
                cross join lateral (
                    select job.ctid as row_ctid, job.id, job.priority, job.run_at, job.job_queue_id
                    from :schema._private_jobs as job
                    where
                        job.locked_at is null
                        and job.attempts < job.max_attempts
                        and job.job_queue_id is null
                        and job.task_id = task.id
                        and job.priority = unqueued_level.priority
                        and job.run_at <= (select at from moment)
                        and
                        -- include: parts/is_unmarked
                        and
                        -- include: parts/is_allowed
                    order by job.run_at
                    limit cast(:window as int)
                ) as mine
            order by mine.run_at, mine.id
            limit cast(:window as int)
        ) as due
    where unqueued_level.run_at <= (select at from moment)
    limit cast(:window as int)
),
queued_level as (
    select -32769 as priority, timestamptz 'infinity' as run_at
    union all
    select next.priority, next.run_at
    from
        queued_level
        cross join lateral (
            select first.priority, first.run_at
            from
                unnest(cast(:task_ids as int[])) as task (id)
                cross join lateral (
                    select job.priority, job.run_at
                    from :schema._private_jobs as job
                    where
                        job.locked_at is null
                        and job.attempts < job.max_attempts
                        and coalesce(job.job_queue_id, 0) <> 0
                        and job.task_id = task.id
                        and job.priority > queued_level.priority
                    order by job.priority, job.run_at
                    limit 1
                ) as first
            order by first.priority, first.run_at
            limit 1
        ) as next
),
walked as (
    select due.*
    from
        queued_level
        cross join lateral (
            select mine.*
            from
                unnest(cast(:task_ids as int[])) as task (id)
                cross join lateral (
                    select job.ctid as row_ctid, job.id, job.priority, job.run_at, job.job_queue_id
                    from :schema._private_jobs as job
                    where
                        job.locked_at is null
                        and job.attempts < job.max_attempts
                        and coalesce(job.job_queue_id, 0) <> 0
                        and job.task_id = task.id
                        and job.priority = queued_level.priority
                        and job.run_at <= (select at from moment)
                        and
                        -- include: parts/is_allowed
                    order by job.run_at
                    limit cast(:window as int)
                ) as mine
            order by mine.run_at, mine.id
            limit cast(:window as int)
        ) as due
    where queued_level.run_at <= (select at from moment)
    limit cast(:window as int)
),
walk as (
    select
        (select count(*) from walked) >= cast(:window as int) as is_full,
        (
            select count(*)
            from (
                select
                from
                    (select distinct walked.job_queue_id as id from walked) as met
                    cross join lateral (
                        select
                        from :schema._private_job_queues as queue
                        where queue.id = met.id and queue.locked_at is null
                    ) as free_queue
                limit cast(:wanted as int)
            ) as free
        ) < cast(:wanted as int) as is_short
),
jump as (
    (
        select first.*
        from
            unnest(cast(:task_ids as int[])) as task (id)
            cross join lateral (
                select job.ctid as row_ctid, job.id, job.priority, job.run_at, job.job_queue_id, job.task_id
                from :schema._private_jobs as job
                where
                    job.locked_at is null
                    and job.attempts < job.max_attempts
                    and job.job_queue_id is not null
                    and job.task_id = task.id
                    and
                    -- include: parts/is_allowed
                order by job.job_queue_id, job.priority, job.run_at, job.id
                limit 1
            ) as first
        where (select walk.is_full and walk.is_short from walk)
    )
    union all
    select next.*
    from
        jump
        cross join lateral (
            select job.ctid as row_ctid, job.id, job.priority, job.run_at, job.job_queue_id, job.task_id
            from :schema._private_jobs as job
            where
                job.locked_at is null
                and job.attempts < job.max_attempts
                and job.job_queue_id is not null
                and job.task_id = jump.task_id
                and (job.job_queue_id, job.priority) > (jump.job_queue_id, jump.priority)
                and
                -- include: parts/is_allowed
            order by job.job_queue_id, job.priority, job.run_at, job.id
            limit 1
        ) as next
),
jumped as (
    select * from jump limit cast(:window as int)
),
reach as (
    select
        (select walk.is_full and walk.is_short from walk)
        and (select count(*) from jumped) >= cast(:window as int) as is_less
),
suitable as (
    select unqueued_due.*
    from unqueued_due
    where
        not (select reach.is_less from reach)
        or (unqueued_due.priority, unqueued_due.run_at, unqueued_due.id) <= (
            select walked.priority, walked.run_at, walked.id
            from walked
            order by walked.priority desc, walked.run_at desc, walked.id desc
            limit 1
        )
),
extent as (
    select
        (select count(*) from unqueued_due) >= cast(:window as int)
        or (select reach.is_less from reach)
        or (select walk.is_full and not walk.is_short from walk) as is_full
),
edge as (
    select walked.priority, walked.run_at
    from walked
    where (select walk.is_full from walk)
    order by walked.priority desc, walked.run_at desc
    limit 1
),
head as (
    select distinct on (first.job_queue_id) first.*
    from (
        select walked.row_ctid, walked.id, walked.priority, walked.run_at, walked.job_queue_id from walked
        union all
        select jumped.row_ctid, jumped.id, jumped.priority, jumped.run_at, jumped.job_queue_id
        from jumped
        where
            jumped.run_at <= (select at from moment)
            and (select count(*) from jumped) < cast(:window as int)
    ) as first
    order by first.job_queue_id, first.priority, first.run_at, first.id
),
-- include: parts/take_candidates
