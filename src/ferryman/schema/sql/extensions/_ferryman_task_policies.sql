-- The crash policy of each task, for sweepers that do not know the task. Workers store it when they start.
--
-- on_crash   requeue, retry or fail; null to leave it to the sweeper
-- retry_*    the delay after a crash that uses the attempt: base + step x attempts, at most `most`, plus or minus the
--            jitter (a fraction of it); all null for Graphile's own delay
create table :schema._ferryman_task_policies (
    task_identifier text primary key,
    on_crash text check (on_crash in ('requeue', 'retry', 'fail')),
    retry_base_seconds double precision,
    retry_step_seconds double precision,
    retry_most_seconds double precision,
    retry_jitter double precision
);
