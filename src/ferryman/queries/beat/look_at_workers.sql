-- Send a heartbeat as pulse.sql does, and look for other workers that may be dead, in one round trip.
--
-- :is_watching     whether to look for workers without their session lock, which reads all locks of the server
-- :session_class   the class of the workers' session locks
-- :is_full         whether to look for workers whose heartbeat is old
-- :old_after       seconds. The database's clock only chooses who is looked at; it does not decide who is dead
-- Others:          see parts/pulse.sql
--
-- Returns a row for each worker that may be dead, and one row with nulls if there is none. Each has what pulse.sql returns,
-- its last column at the end; before it stand the worker's id, its newest heartbeat, whether its session lock is missing,
-- whether its heartbeat is old, its interval, whether it has missed two heartbeats by the database's clock, and for how long
-- its silence was observed (note_silence.sql).
-- Other workers may write anything into their metadata: keys are compared as JSON, numbers may be of any size.
-- Locks: as pulse.sql.
with
-- include: parts/pulse
,
held (key) as materialized (
    -- include: parts/held_session_keys
),
suspect as (
    select
        known.id,
        known.last_heartbeat_at,
        known.has_lost_session,
        known.is_old,
        rhythm.beat_interval,
        now() - known.last_heartbeat_at > 2 * rhythm.beat_interval * interval '1 second' as is_late,
        -- include: parts/noted_silence
    from (
        select
            worker.id,
            worker.last_heartbeat_at,
            worker.metadata,
            cast(:is_watching as bool)
            and jsonb_typeof(worker.metadata -> 'session_key') = 'number'
            and (worker.metadata -> 'session_key') not in (select held.key from held) as has_lost_session,
            cast(:is_full as bool)
            and worker.last_heartbeat_at
                not between now() - cast(:old_after as float8) * interval '1 second' and now() as is_old
        from :schema._private_workers as worker
        where worker.id <> cast(:worker_id as text) and isfinite(worker.last_heartbeat_at)
        offset 0
    ) as known
    cross join lateral (
        select
            coalesce(
                -- include: parts/beat_interval
                , 30  -- a Rust worker does not say it; this is its default
            ) as beat_interval
    ) as rhythm
    where known.has_lost_session or known.is_old
)
select
    self.is_registered,
    self.has_watch,
    suspect.id,
    suspect.last_heartbeat_at,
    coalesce(suspect.has_lost_session, false) as has_lost_session,
    suspect.is_old,
    suspect.beat_interval,
    suspect.is_late,
    suspect.noted_silence,
    self.has_foreign
from self left join suspect on true;
