-- worker_deregister: forget a worker that ended in good order.
create function :schema.worker_deregister(worker_id text) returns void
language sql
set search_path = pg_catalog, pg_temp
as $ferryman$
    delete from :schema._private_workers as worker where worker.id = worker_deregister.worker_id
$ferryman$;
