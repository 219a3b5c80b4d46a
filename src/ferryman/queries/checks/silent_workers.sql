-- Registered workers without a heartbeat for :silent_for seconds and for two of their own heartbeat intervals, and how many
-- jobs each still holds. Without its session lock (:session_class), two intervals are enough. The time for which the
-- server was down does not count. Reads all jobs. Locks nothing.
with silent as (
    select worker.id, worker.silence
    from (
        select
            known.id,
            case
                when isfinite(known.last_heartbeat_at)
                    then extract(epoch from now() - greatest(known.last_heartbeat_at, pg_postmaster_start_time()))
            end as silence,
            2 * coalesce(
                -- include: parts/beat_interval
                , 30  -- a Rust worker does not say it; this is its default
            ) as patience,
            coalesce(
                jsonb_typeof(known.metadata -> 'session_key') = 'number'
                and (known.metadata -> 'session_key') not in (
                    -- include: parts/held_session_keys
                ),
                false
            ) as is_session_lost
        from :schema._private_workers as known
    ) as worker
    where
        worker.silence > worker.patience
        and (worker.is_session_lost or worker.silence > cast(:silent_for as float8))
)
select
    silent.id,
    cast(silent.silence as float8),
    (select count(*) from :schema._private_jobs as job where job.locked_by = silent.id),
    (select count(*) from :schema._private_workers)
from silent
order by silent.silence desc
limit 100;
