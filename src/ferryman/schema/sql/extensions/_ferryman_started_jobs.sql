-- Start marks: jobs that a worker had claimed ahead and has begun to run.
--
-- A mark counts only while the job still has this locked_by and this locked_at; others are leftovers, and are removed now
-- and then. It is logged, although written often: a mark that vanished would let a job run twice.
create table :schema._ferryman_started_jobs (
    job_id bigint primary key,
    locked_by text not null,
    locked_at timestamptz not null
);
