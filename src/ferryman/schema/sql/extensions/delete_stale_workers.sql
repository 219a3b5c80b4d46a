-- delete_stale_workers: delete the rows of workers whose jobs have been recovered.
create function :schema.delete_stale_workers(worker_ids text[]) returns void
language sql
set search_path = pg_catalog, pg_temp
as $ferryman$
    delete from :schema._private_workers as worker where worker.id = any(worker_ids)
$ferryman$;
