-- Unlock everything that these workers hold. Locks: the rows of their jobs and queues.
select :schema.force_unlock_workers(cast(:worker_ids as pg_catalog.text[]));
