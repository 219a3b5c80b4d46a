drop function if exists :schema.worker_deregister(text);
