alter function :schema.list_stale_workers(interval) set search_path = pg_catalog, pg_temp;
