-- The newest heartbeats of these workers, as microseconds and as a time, how many seconds apart they mean to be, and for how
-- long knowns have observed the silence since then (note_silence.sql).
--
-- :worker_ids
--
-- A worker that does not say is taken to beat every 30 seconds, which is the default of ours and of the Rust worker.
-- Locks nothing.
select
    known.id,
    cast(extract(epoch from known.last_heartbeat_at) * 1000000 as bigint),
    known.last_heartbeat_at,
    coalesce(
        -- include: parts/beat_interval
        , 30
    ),
    -- include: parts/noted_silence
from :schema._private_workers as known
where known.id = any (cast(:worker_ids as text[])) and isfinite(known.last_heartbeat_at)
order by known.id;
