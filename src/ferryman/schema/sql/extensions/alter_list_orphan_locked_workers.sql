alter function :schema.list_orphan_locked_workers(interval) set search_path = pg_catalog, pg_temp;
