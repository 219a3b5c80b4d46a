-- The crashes of jobs: one row for each time that a sweep recovered a job, or that the child process of a job died.
--
-- attempt    the job's attempts while the dead worker held it
-- started    whether the job had started; null if that cannot be known
-- decision   requeue, retry, fail, poisoned, given back, superseded, reschedule or backoff
-- reason     why the worker was declared dead: session lost, silent, unregistered or by hand; or child process died
--
-- The indexes serve the crash count of a job and the removal of old rows.
create table :schema._ferryman_crashes (
    id bigint generated always as identity primary key,
    job_id bigint not null,
    task_identifier text not null,
    worker_id text not null,
    recovered_by text not null,
    noticed_at timestamptz not null default now(),
    attempt integer not null,
    started boolean,
    decision text not null,
    reason text not null
);

create index _ferryman_crashes_job_id_noticed_at_idx on :schema._ferryman_crashes (job_id, noticed_at);
create index _ferryman_crashes_noticed_at_idx on :schema._ferryman_crashes (noticed_at);
