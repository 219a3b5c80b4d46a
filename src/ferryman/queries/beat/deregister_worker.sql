-- Forget a worker that ends in good order. Locks: its row.
delete from :schema._private_workers as worker where worker.id = cast(:worker_id as text);
