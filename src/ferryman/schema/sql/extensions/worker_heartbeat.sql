-- worker_heartbeat: register a worker, or update its heartbeat. Without metadata, the old metadata stays.
create function :schema.worker_heartbeat(worker_id text, metadata json default null) returns void
language sql
set search_path = pg_catalog, pg_temp
as $ferryman$
    insert into :schema._private_workers as worker (id, last_heartbeat_at, metadata)
    values (worker_heartbeat.worker_id, now(), cast(worker_heartbeat.metadata as jsonb))
    on conflict (id) do update set
        last_heartbeat_at = excluded.last_heartbeat_at,
        metadata = coalesce(excluded.metadata, worker.metadata)
$ferryman$;
