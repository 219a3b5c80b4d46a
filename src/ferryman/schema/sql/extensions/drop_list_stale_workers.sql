drop function if exists :schema.list_stale_workers(interval);
