-- The newest heartbeats of these workers, as microseconds and as a time, and how many seconds apart they mean to be.
--
-- :worker_ids
--
-- A worker that does not say is taken to beat every 30 seconds, which is the default of ours and of the Rust worker.
-- Locks nothing.
select
    worker.id,
    cast(extract(epoch from worker.last_heartbeat_at) * 1000000 as bigint),
    worker.last_heartbeat_at,
    case jsonb_typeof(worker.metadata -> 'beat_interval')
        when 'number'
            then cast(greatest(0, least(86400, cast(worker.metadata -> 'beat_interval' as numeric))) as float8)
        else 30
    end
from :schema._private_workers as worker
where worker.id = any (cast(:worker_ids as text[])) and isfinite(worker.last_heartbeat_at)
order by worker.id;
