-- Registered workers that are dead, and those that were silent long enough to lose the jobs that they never started.
--
-- :named               null, or ids that are declared dead by hand: then no others are looked at
-- :observed            null, or what the caller has observed: a JSON array of
--     worker_id, last_heartbeat_at   the worker, and its newest heartbeat
--     silence                        seconds for which the caller has seen that heartbeat not change
--     is_session_lost                whether the worker's session lock has been gone for long enough
--                      With null, silence is the age of the heartbeat, but no longer than the server has been up.
-- :threshold, :claimed_threshold   seconds of silence after which all jobs, or only unstarted ones, are recovered. No worker
--                      is silent before two of its own heartbeats were due, under any settings of the sweeper.
-- :multiplier, :flags  a worker that holds a job with one of these flags may be silent this many times longer, and is not
--                      dead when its session is lost either
--
-- Reads the whole table of jobs, because no index leads with locked_by, but only if a worker is suspected. Locks nothing.
with observed as (
    select item.*
    from json_to_recordset(cast(cast(:observed as text) as json)) as item (
        worker_id text, last_heartbeat_at timestamptz, silence float8, is_session_lost boolean
    )
),
worker as (
    select
        known.id,
        known.last_heartbeat_at,
        known.metadata,
        coalesce(known.id = any (cast(:named as text[])), false) as is_named,
        coalesce(observed.is_session_lost, false) as is_session_lost,
        case
            when cast(:observed as text) is not null then coalesce(observed.silence, 0)
            when not isfinite(known.last_heartbeat_at) then 0
            else extract(epoch from now() - greatest(known.last_heartbeat_at, pg_postmaster_start_time()))
        end as silence,
        2 * coalesce(
            -- include: parts/beat_interval
            , 30  -- a Rust worker does not say it; this is its default
        ) as patience,
        -- Null when the worker does not say: one in Rust may claim ahead.
        case jsonb_typeof(known.metadata -> 'prefetches')
            when 'boolean' then known.metadata -> 'prefetches' = jsonb 'true'
        end as prefetches
    from
        :schema._private_workers as known
        left join observed
            on observed.worker_id = known.id and observed.last_heartbeat_at = known.last_heartbeat_at
    where cast(:named as text[]) is null or known.id = any (cast(:named as text[]))
),
suspect as (
    select
        worker.*,
        greatest(cast(:threshold as float8), worker.patience) as threshold,
        worker.is_session_lost
        or worker.silence > greatest(cast(:threshold as float8), worker.patience) as is_suspected,
        worker.prefetches is true
        and (
            worker.is_session_lost
            or worker.silence > greatest(cast(:claimed_threshold as float8), worker.patience)
        ) as has_idled
    from worker
),
needed as (
    select distinct job.locked_by as id
    from :schema._private_jobs as job
    where
        exists (select from suspect where suspect.is_suspected and not suspect.is_named)
        and job.locked_by = any (array(select suspect.id from suspect where suspect.is_suspected))
        and
        -- include: parts/is_resilient
),
judged as (
    select
        suspect.*,
        suspect.is_named
        or (
            suspect.is_suspected
            and (
                suspect.silence > suspect.threshold * cast(:multiplier as float8)
                or suspect.id not in (select needed.id from needed)
            )
        ) as is_dead
    from suspect
)
select
    judged.id,
    case
        when judged.is_named then 'by hand'
        when judged.is_session_lost then 'session lost'
        else 'silent'
    end,
    case when isfinite(judged.last_heartbeat_at) then cast(extract(epoch from judged.last_heartbeat_at) * 1000000 as bigint) end,
    judged.is_dead,
    judged.prefetches,
    judged.metadata ->> 'on_crash'
from judged
where judged.is_dead or judged.has_idled
order by judged.id;
