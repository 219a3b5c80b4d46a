alter function :schema.worker_deregister(text) set search_path = pg_catalog, pg_temp;
