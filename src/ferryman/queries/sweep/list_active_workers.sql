-- Registered workers, the longest registered first. A worker is stale if its last heartbeat is older than the threshold.
--
-- The last column says whether the worker holds no session lock although it said that it would: its process is dead, or it
-- has just lost its connection. Locks nothing.
select
    worker.id,
    worker.started_at,
    worker.last_heartbeat_at,
    worker.last_heartbeat_at < now() - cast(:threshold as float8) * interval '1 second',
    cast(worker.metadata as text),
    coalesce(
        jsonb_typeof(worker.metadata -> 'session_key') = 'number'
        and (worker.metadata -> 'session_key') not in (
            -- include: parts/held_session_keys
        ),
        false
    )
from :schema._private_workers as worker
order by worker.started_at, worker.id;
