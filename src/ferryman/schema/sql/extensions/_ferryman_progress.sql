-- The progress of running jobs, as their handlers set it. A row counts only while the job still has this locked_by and
-- this locked_at. Other rows are left from workers that died.
create table :schema._ferryman_progress (
    job_id bigint primary key,
    locked_by text not null,
    locked_at timestamptz not null,
    fraction float8 not null,
    message text,
    reported_at timestamptz not null
);
