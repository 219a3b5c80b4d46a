-- worker_deregister: delete the row of a worker that has shut down.
create function :schema.worker_deregister(worker_id text) returns void
language sql
set search_path = pg_catalog, pg_temp
as $ferryman$
    delete from :schema._private_workers as worker where worker.id = worker_deregister.worker_id
$ferryman$;
