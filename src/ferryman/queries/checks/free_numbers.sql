-- The longest range of ids that no task uses, and the longest that no queue uses. An id that a job refers to counts as
-- used, even if its task or queue is gone.
--
-- Columns: table, first and last unused id. Reads all tasks, queues and jobs. Locks nothing.
with taken as (
    select '_private_tasks' as place, cast(task.id as bigint) as id from :schema._private_tasks as task
    union
    select '_private_tasks', job.task_id from :schema._private_jobs as job
    union
    select '_private_job_queues', queue.id from :schema._private_job_queues as queue
    union
    select '_private_job_queues', job.job_queue_id from :schema._private_jobs as job where job.job_queue_id is not null
    union
    select edge.place, edge.id
    from (values ('_private_tasks'), ('_private_job_queues')) as tables (place)
    cross join lateral (values (tables.place, bigint '0'), (tables.place, bigint '2147483648')) as edge (place, id)
),
gap as (
    select
        taken.place,
        taken.id + 1 as first_free,
        lead(taken.id) over (partition by taken.place order by taken.id) - 1 as last_free
    from taken
)
select distinct on (gap.place) gap.place, gap.first_free, gap.last_free
from gap
where gap.last_free >= gap.first_free
order by gap.place, gap.last_free - gap.first_free desc;
