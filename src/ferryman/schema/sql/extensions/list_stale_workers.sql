-- list_stale_workers: registered workers whose last beat is older than the threshold, by the clock of the database.
create function :schema.list_stale_workers(stale_threshold interval) returns table (worker_id text)
language sql
set search_path = pg_catalog, pg_temp
as $ferryman$
    select worker.id from :schema._private_workers as worker where worker.last_heartbeat_at < now() - stale_threshold
$ferryman$;
