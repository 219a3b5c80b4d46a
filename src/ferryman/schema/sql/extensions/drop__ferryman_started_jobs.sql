drop table if exists :schema._ferryman_started_jobs;
