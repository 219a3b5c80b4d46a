-- list_stale_workers: list registered workers whose last heartbeat is older than the threshold, by the database's
-- clock.
create function :schema.list_stale_workers(stale_threshold interval) returns table (worker_id text)
language sql
set search_path = pg_catalog, pg_temp
as $ferryman$
    select worker.id from :schema._private_workers as worker where worker.last_heartbeat_at < now() - stale_threshold
$ferryman$;
