alter function :schema._ferryman_mark_superseded() set search_path = pg_catalog, pg_temp;
