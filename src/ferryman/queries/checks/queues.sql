-- How many named queues there are, and how many of them are unused. Reads all queues and jobs. Locks nothing.
select
    count(*),
    count(*) filter (where queue.locked_at is null and used.id is null)
from
    :schema._private_job_queues as queue
    left join (
        select distinct job.job_queue_id as id
        from :schema._private_jobs as job
        where job.job_queue_id is not null
    ) as used on used.id = queue.id;
