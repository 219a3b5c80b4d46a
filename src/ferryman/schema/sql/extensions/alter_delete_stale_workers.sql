alter function :schema.delete_stale_workers(text[]) set search_path = pg_catalog, pg_temp;
