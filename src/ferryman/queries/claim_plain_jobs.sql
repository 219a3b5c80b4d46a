-- Claim up to :wanted jobs without a queue, if none of the first :window due jobs that are ours has a queue.
--
-- Mostly that is so, and this is a third of claim_jobs.sql, which takes the same jobs and leaves them in the same state:
-- a worker without much to do spends more on preparing a large plan than on claiming. Otherwise nothing is claimed, and
-- the window counts as full. When all that is due was taken, what comes back says so, and when the next job is due:
-- nothing else need be asked before then.
--
-- Parameters and locks: see claim_jobs.sql and claim_candidates.sql. Candidates are tried one by one.
with
-- include: claim_moment
-- include: claim_done
front as (
    select
        job.ctid as place,
        job.id,
        job.priority,
        job.run_at,
        job.job_queue_id,
        job.task_id = any (cast(:task_ids as int[]))
        and (cast(:forbidden_flags as text[]) is null or (job.flags ?| cast(:forbidden_flags as text[])) is not true) as is_ours
    from :schema._private_jobs as job
    where job.is_available = true
    order by job.priority, job.run_at
    limit cast(:window as int)
),
outlook as (
    select
        count(*) as seen,
        count(*) filter (
            where front.is_ours and front.job_queue_id is not null and front.run_at <= (select at from moment)
        ) as queued,
        count(*) filter (where front.run_at <= (select at from moment)) as due,
        min(front.run_at) filter (
            where front.run_at > (select at from moment) and front.run_at < 'infinity'
        ) - (select at from moment) as next_due_in
    from front
),
chosen as (
    select locked.place, locked.id
    from
        (
            select front.place
            from front
            where front.is_ours and front.run_at <= (select at from moment) and (select queued from outlook) = 0
            order by front.priority, front.run_at, front.id
        ) as candidate
        cross join lateral (
            select job.ctid as place, job.id
            from :schema._private_jobs as job
            where job.ctid = candidate.place and job.locked_at is null and job.attempts < job.max_attempts
            for update skip locked
        ) as locked
    limit cast(:wanted as int)
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
    -- include: no_claim
    (select cast(extract(epoch from at) * 1000000 as bigint) from moment) as token,
    outlook.queued > 0 or outlook.seen >= cast(:window as int) as is_window_full,
    cast(extract(epoch from outlook.next_due_in) as float8) as next_due_in,
    cast(null as bigint) as known_tasks,
    outlook.due = (select count(*) from chosen) as took_all,
    case when (select count(*) from done) < cast(:done_count as int) then array(select done.id from done) end as done,
    array(select chosen.id from chosen) as job_ids,
    (select count(*) from haste) as haste -- nobody reads it, but otherwise nobody would do it
from outlook
-- include: claimed_rows
