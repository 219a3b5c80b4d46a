alter function :schema.recover_dead_worker_jobs(text[], interval) set search_path = pg_catalog, pg_temp;
