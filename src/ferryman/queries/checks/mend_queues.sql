-- Give every queue that jobs refer to, and that has no row, a row again, with the old number and a made-up name: its jobs
-- still run one after the other. If one of them runs, the queue is locked by its claim, so that its worker frees it under the
-- usual fence. Runs under lock_queues.sql.
--
-- Numbers beyond those that were given out, as after a sequence was set back, are not given out a second time.
-- Locks: the rows of these jobs, so that none of them ends before its queue exists.
with lost as (
    select job.job_queue_id as id, job.locked_by, job.locked_at
    from :schema._private_jobs as job
    where
        job.job_queue_id is not null
        and not exists (select from :schema._private_job_queues as queue where queue.id = job.job_queue_id)
    for share of job
),
made as (
    insert into :schema._private_job_queues (id, queue_name, locked_by, locked_at)
    overriding system value
    select distinct on (lost.id) lost.id, 'ferryman-lost-queue-' || lost.id, lost.locked_by, lost.locked_at
    from lost
    order by lost.id, lost.locked_at desc nulls last
    on conflict do nothing
    returning id, queue_name
)
select
    made.names,
    case when made.newest > sequence.last_value then setval(cast(sequence.tableoid as regclass), made.newest) end
from
    (select array_agg(made.queue_name order by made.id) as names, max(made.id) as newest from made) as made
    cross join :schema.job_queues_id_seq as sequence;
