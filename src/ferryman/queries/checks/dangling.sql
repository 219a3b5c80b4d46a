-- Jobs whose task or queue has no row, so that no worker ever sees them; and jobs of tasks that a repair has given a name.
--
-- Columns: kind ('task', 'queue' or 'unnamed'), how many jobs, the ids of some of them, and some of the numbers of their
-- tasks or queues. Reads all jobs. Locks nothing.
with lost as (
    select 'task' as kind, job.id, job.task_id as number
    from :schema._private_jobs as job
    where not exists (select from :schema._private_tasks as task where task.id = job.task_id)
    union all
    select 'queue', job.id, job.job_queue_id
    from :schema._private_jobs as job
    where
        job.job_queue_id is not null
        and not exists (select from :schema._private_job_queues as queue where queue.id = job.job_queue_id)
    union all
    select 'unnamed', job.id, task.id
    from
        :schema._private_tasks as task
        join :schema._private_jobs as job on job.task_id = task.id
    where task.identifier = 'ferryman-lost-task-' || task.id
)
select
    lost.kind,
    count(*),
    (array_agg(lost.id order by lost.id))[1:10],
    (array_agg(distinct lost.number))[1:10]
from lost
group by lost.kind
order by lost.kind;
