-- Registered workers, the longest-lived first; stale are those whose last beat is older than the threshold. Locks nothing.
select
    worker.id,
    worker.started_at,
    worker.last_heartbeat_at,
    worker.last_heartbeat_at < now() - cast(:threshold as float8) * interval '1 second',
    cast(worker.metadata as text)
from :schema._private_workers as worker
order by worker.started_at, worker.id;
