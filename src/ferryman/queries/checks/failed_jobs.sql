-- How many jobs have failed for good, by task. Reads all jobs. Locks nothing.
select coalesce(task.identifier, 'task ' || failed.task_id), failed.number
from
    (
        select job.task_id, count(*) as number
        from :schema._private_jobs as job
        where job.attempts >= job.max_attempts and job.locked_at is null
        group by job.task_id
    ) as failed
    left join :schema._private_tasks as task on task.id = failed.task_id
order by failed.number desc, 1;
