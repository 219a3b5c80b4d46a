-- The newest heartbeats of these workers, as microseconds and as a time, how many seconds apart they mean to be, and for how
-- long others have observed the silence since then (note_silence.sql).
--
-- :worker_ids
--
-- A worker that does not say is taken to beat every 30 seconds, which is the default of ours and of the Rust worker.
-- Locks nothing.
select
    other.id,
    cast(extract(epoch from other.last_heartbeat_at) * 1000000 as bigint),
    other.last_heartbeat_at,
    case jsonb_typeof(other.metadata -> 'beat_interval')
        when 'number'
            then cast(greatest(0, least(86400, cast(other.metadata -> 'beat_interval' as numeric))) as float8)
        else 30
    end,
    -- include: parts/noted_silence
from :schema._private_workers as other
where other.id = any (cast(:worker_ids as text[])) and isfinite(other.last_heartbeat_at)
order by other.id;
