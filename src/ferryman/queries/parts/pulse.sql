-- needs: nothing
-- gives: beaten, noted, self
-- The part that pulse.sql and look_at_workers.sql share: send a heartbeat if one is due, learn whether this worker was swept,
-- try to become the watcher, and learn with each heartbeat whether workers of other programs are registered.
--
-- :worker_id    the worker
-- :is_due       whether to send a heartbeat
-- :watch_step   'keep' the watcher's lock, 'try' to get it, 'leave' it to others, or 'none': there are no session locks
--               here. PostgreSQL counts how often a session lock was taken, so one that is held must not be tried for.
-- :watch_class, :watch_key   the watcher's lock
-- :state        what the worker is doing, as JSON, to be stored with the heartbeat; null stores nothing
beaten as (
    update :schema._private_workers as worker
    set last_heartbeat_at = clock_timestamp()
    where worker.id = cast(:worker_id as text) and cast(:is_due as bool)
    returning worker.id
),
noted as (
    insert into :schema._ferryman_worker_states
        (worker_id, slots, running, done, failed, rss_bytes, loop_lag_seconds)
    select beaten.id, told.slots, told.running, told.done, told.failed, told.rss_bytes, told.loop_lag_seconds
    from
        beaten
        cross join json_to_record(cast(cast(:state as text) as json)) as told (
            slots int, running int, done bigint, failed bigint, rss_bytes bigint, loop_lag_seconds float8
        )
    where cast(:state as text) is not null
),
self as materialized (
    select
        case
            when cast(:is_due as bool) then exists (select from beaten)
            else exists (select from :schema._private_workers as worker where worker.id = cast(:worker_id as text))
        end as is_registered,
        case cast(:watch_step as text)
            when 'keep' then true
            when 'try' then pg_try_advisory_lock(cast(:watch_class as int), cast(:watch_key as int))
            when 'leave' then not pg_advisory_unlock(cast(:watch_class as int), cast(:watch_key as int))
            else false
        end as has_watch,
        -- Workers of other programs, such as Rust's, store no heartbeat interval.
        cast(:is_due as bool)
        and exists (
            select from :schema._private_workers as worker
            where jsonb_typeof(worker.metadata -> 'beat_interval') is distinct from 'number'
        ) as has_foreign
)
