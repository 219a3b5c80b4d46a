-- How many jobs have failed for good, by task, and how many of them are left to people: they failed more than :failed_for
-- seconds ago, and workers delete old failed jobs only of tasks that Ferryman workers have registered.
-- Reads all jobs. Locks nothing.
select
    coalesce(task.identifier, 'task ' || failed.task_id),
    failed.number,
    case when task.identifier = any (array(
        -- include: own_tasks
    )) then 0 else failed.old end
from
    (
        select
            job.task_id,
            count(*) as number,
            count(*) filter (
                where
                -- include: failed_at
                < now() - cast(:failed_for as float8) * interval '1 second'
            ) as old
        from :schema._private_jobs as job
        where job.attempts >= job.max_attempts and job.locked_at is null
        group by job.task_id
    ) as failed
    left join :schema._private_tasks as task on task.id = failed.task_id
order by failed.number desc, 1;
