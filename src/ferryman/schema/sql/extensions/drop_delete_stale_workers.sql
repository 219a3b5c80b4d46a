drop function if exists :schema.delete_stale_workers(text[]);
