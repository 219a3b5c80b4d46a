drop trigger if exists _ferryman_mark_superseded on :schema._private_jobs;
drop function if exists :schema._ferryman_mark_superseded();
