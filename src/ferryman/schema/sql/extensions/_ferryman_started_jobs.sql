-- Start marks: jobs that a worker had claimed ahead and then started.
--
-- A mark counts only while the job still has this locked_by and this locked_at. Other marks are left over, and are
-- removed from time to time. The table is logged, although it is written often: a mark that was lost would let a job
-- run twice.
create table :schema._ferryman_started_jobs (
    job_id bigint primary key,
    locked_by text not null,
    locked_at timestamptz not null
);
