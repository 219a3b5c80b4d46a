-- Remove the row of a worker that shuts down in order. Locks: that row.
delete from :schema._private_workers as worker where worker.id = cast(:worker_id as text);
