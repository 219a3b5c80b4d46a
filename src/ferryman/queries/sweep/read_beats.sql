-- The newest heartbeats of these workers, as microseconds and as a time, the seconds between two heartbeats, and for how long
-- the silence since then was observed (note_silence.sql).
--
-- :worker_ids   the workers
--
-- Without a stored interval, 30 seconds are assumed, the default of Ferryman and of the Rust worker.
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
