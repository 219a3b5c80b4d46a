-- Holders of jobs or queues that are not registered, and have taken nothing new for longer than the threshold.
--
-- Whoever takes new jobs is alive, registered or not. Whoever never registers, such as a Node pool or a Rust worker without
-- recovery, falls under its own rules: only ids of Ferryman's that register, or that were registered once, are ever found,
-- unless somebody names them. The time for which the server was down does not count.
--
-- :named                          null, or ids that somebody declares dead, whatever they look like and however busy
-- :threshold, :multiplier, :flags as in find_silent_workers.sql
--
-- Reads all jobs and queues, for want of indexes on locked_by. Locks nothing.
with held as (
    select
        job.locked_by as id,
        job.locked_at,
        -- include: is_resilient
        as is_resilient
    from :schema._private_jobs as job
    where job.locked_by is not null
    union all
    select queue.locked_by, queue.locked_at, false
    from :schema._private_job_queues as queue
    where queue.locked_by is not null
),
holder as (
    select
        held.id,
        extract(epoch from now() - greatest(max(held.locked_at), pg_postmaster_start_time())) as silence,
        cast(:threshold as float8)
        * case when bool_or(held.is_resilient) then cast(:multiplier as float8) else 1 end as threshold
    from held
    group by held.id
)
select
    holder.id,
    case when cast(:named as text[]) is null then 'unregistered' else 'by hand' end,
    lost.metadata -> 'prefetches' = jsonb 'true',
    lost.metadata ->> 'on_crash'
from
    holder
    left join :schema._ferryman_lost_workers as lost on lost.worker_id = holder.id
where
    not exists (select from :schema._private_workers as worker where worker.id = holder.id)
    and case
        when cast(:named as text[]) is not null then holder.id = any (cast(:named as text[]))
        else
            holder.silence > holder.threshold
            and (holder.id like 'ferryman-%' or lost.worker_id is not null)
    end
order by holder.id;
