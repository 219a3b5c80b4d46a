-- Report over a new connection that a worker is still running, and which session lock it holds now. Returns no row if the
-- worker was swept: then its jobs are no longer its own, and it must not continue under this id.
-- Locks: its row.
update :schema._private_workers as worker
set last_heartbeat_at = clock_timestamp(), metadata = cast(cast(:metadata as text) as jsonb)
where worker.id = cast(:worker_id as text)
returning worker.id;
