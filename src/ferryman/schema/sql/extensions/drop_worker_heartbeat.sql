drop function if exists :schema.worker_heartbeat(text, json);
