-- Holders of jobs or queues that are not registered, and have claimed nothing for longer than the threshold.
--
-- A holder that claims jobs is alive, registered or not. One that never registers, such as a Node pool or a Rust worker
-- without recovery, falls under its own rules. So only ids of Ferryman's that register, or that were registered once, are
-- dead then. The others are dead if the caller gives a time-out for them, or names them. The time for which the server was
-- down does not count, and a lock that is dated 'infinity' never expires.
--
-- :named                            null, or ids that are declared dead by hand, of any form and even if they claim jobs
-- :unregistered_timeout             null, or seconds after which holders that never registered are dead
-- :threshold, :multiplier, :flags   as in find_silent_workers.sql
--
-- Columns: id, whether it is dead, why, whether it claimed ahead, its default policy (null: not known), how many jobs it
-- holds, the ids of some, and for how many seconds it has claimed nothing (null: its newest lock never expires).
-- Reads all jobs and queues, because no index leads with locked_by. Locks nothing.
with held as (
    select
        job.locked_by as id,
        job.locked_at,
        job.id as job_id,
        -- include: parts/is_resilient
        as is_resilient
    from :schema._private_jobs as job
    where job.locked_by is not null
    union all
    select queue.locked_by, queue.locked_at, null, false
    from :schema._private_job_queues as queue
    where queue.locked_by is not null
),
holder as (
    select
        held.id,
        count(held.job_id) as jobs,
        (array_agg(held.job_id order by held.locked_at, held.job_id) filter (where held.job_id is not null))[1:10] as job_ids,
        case
            when max(held.locked_at) < timestamptz 'infinity'
                then cast(
                    extract(epoch from now() - greatest(max(held.locked_at), pg_postmaster_start_time())) as float8
                )
        end as silence,
        case when bool_or(held.is_resilient) then cast(:multiplier as float8) else 1 end as patience
    from held
    group by held.id
),
judged as (
    select
        holder.*,
        lost.metadata,
        case
            when cast(:named as text[]) is not null then holder.id = any (cast(:named as text[]))
            when holder.id like 'ferryman-%' or lost.started_at is not null
                then coalesce(holder.silence > cast(:threshold as float8) * holder.patience, false)
            else coalesce(holder.silence > cast(:unregistered_timeout as float8) * holder.patience, false)
        end as is_dead
    from
        holder
        left join :schema._ferryman_lost_workers as lost on lost.worker_id = holder.id
    where not exists (select from :schema._private_workers as worker where worker.id = holder.id)
)
select
    judged.id,
    judged.is_dead,
    case when cast(:named as text[]) is null then 'unregistered' else 'by hand' end,
    judged.metadata -> 'prefetches' = jsonb 'true',
    judged.metadata ->> 'on_crash',
    judged.jobs,
    coalesce(judged.job_ids, array[]::bigint[]),
    judged.silence
from judged
where
    judged.is_dead
    or (
        cast(:named as text[]) is null
        and judged.jobs > 0
        and coalesce(judged.silence > cast(:threshold as float8) * judged.patience, true)
    )
order by judged.id;
