-- Register a worker under an id that was never used before. Locks: its row.
insert into :schema._private_workers (id, last_heartbeat_at, metadata)
values (cast(:worker_id as text), clock_timestamp(), cast(cast(:metadata as text) as jsonb));
