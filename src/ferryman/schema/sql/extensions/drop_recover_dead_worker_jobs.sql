drop function if exists :schema.recover_dead_worker_jobs(text[], interval);
