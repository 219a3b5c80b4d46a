-- Claim up to :wanted jobs without a queue, if no job of ours with a queue stands before the last of them.
--
-- Mostly that is so, and this is a third of claim_jobs.sql, which takes the same jobs and leaves them in the same state:
-- a worker without much to do spends more on preparing a large plan than on claiming. Otherwise nothing is claimed, and
-- the window counts as full. When all that is due was taken, what comes back says so, and when the next job is due:
-- nothing else need be asked before then.
--
-- The window is read only as far as needed: nothing before the lock asks for all of it. So it may be large, and others who
-- claim at the same time are passed by: what they are taking is seen to be marked where it stands in the window, and costs
-- no second look. Jobs of the same priority and run_at are taken as they stand in the index, and come in the order of their
-- ids.
--
-- Parameters and locks: see claim_jobs.sql and parts/take_candidates.sql. Candidates are tried one by one.
with
-- include: parts/claim_moment
-- include: parts/complete_in_passing
front as (
    select
        job.ctid as place,
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
        front
        left join lateral (
            select job.ctid as place, job.id, job.priority, job.run_at
            from :schema._private_jobs as job
            where
                job.ctid = front.place
                and front.job_queue_id is null
                and job.locked_at is null
                and job.attempts < job.max_attempts
            for update skip locked
        ) as locked on locked.place = front.place
    where
        front.is_worth_a_try
        and front.run_at <= (select at from moment)
        and (locked.id is not null or front.job_queue_id is not null)
    limit cast(:wanted as int)
),
chosen as (
    select found.* from found where not exists (select from found where found.id is null)
),
outlook as (
    -- Counted only when too few were found: then the whole window was read.
    select
        count(*) as seen,
        count(*) filter (where front.run_at <= (select at from moment)) as due,
        min(front.run_at) filter (
            where front.run_at > (select at from moment) and front.run_at < 'infinity'
        ) - (select at from moment) as next_due_in
    from front
    where (select count(*) from chosen) < cast(:wanted as int)
),
claimed as (
    update :schema._private_jobs as job
    set attempts = job.attempts + 1, locked_by = cast(:worker_id as text), locked_at = (select at from moment)
    where job.ctid = any (array(select chosen.place from chosen))
    returning job.*
),
haste as (
    select set_config('synchronous_commit', 'off', true)
    where not cast(:durable as boolean) and cast(:done_count as int) = 0
)
select
    -- include: parts/no_claim
    (select cast(extract(epoch from at) * 1000000 as bigint) from moment) as token,
    exists (select from found where found.id is null) or outlook.seen >= cast(:window as int) as is_window_full,
    cast(extract(epoch from outlook.next_due_in) as float8) as next_due_in,
    cast(null as bigint) as known_tasks,
    outlook.due = (select count(*) from chosen) and outlook.seen < cast(:window as int) as took_all,
    case when (select count(*) from done) < cast(:done_count as int) then array(select done.id from done) end as done,
    array(select chosen.id from chosen order by chosen.priority, chosen.run_at, chosen.id) as job_ids,
    (select count(*) from haste) as haste -- nobody reads it, but otherwise nobody would do it
from outlook
-- include: parts/claim_rows
