alter function :schema.worker_heartbeat(text, json) set search_path = pg_catalog, pg_temp;
