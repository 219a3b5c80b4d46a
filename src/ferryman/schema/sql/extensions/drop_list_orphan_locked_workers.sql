drop function if exists :schema.list_orphan_locked_workers(interval);
