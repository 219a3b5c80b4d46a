-- What a crash means for the jobs of a task, for sweepers that do not know the task. Written by workers when they start.
--
-- on_crash   requeue, retry or fail; null leaves it to whoever sweeps
-- retry_*    the delay after a crash that uses up the attempt: base + step x attempts, no longer than most, give or take
--            the jitter (a part of it); all null for Graphile's own delay
create table :schema._ferryman_task_policies (
    task_identifier text primary key,
    on_crash text check (on_crash in ('requeue', 'retry', 'fail')),
    retry_base_seconds double precision,
    retry_step_seconds double precision,
    retry_most_seconds double precision,
    retry_jitter double precision
);
