-- How many jobs failed for good more than :failed_for seconds ago and are left to people, by task: workers delete old ones only
-- of tasks that Ferryman workers have registered. Reads all jobs. Locks nothing.
select coalesce(task.identifier, 'task ' || failed.task_id), failed.number
from
    (
        select job.task_id, count(*) as number
        from :schema._private_jobs as job
        where
            job.attempts >= job.max_attempts
            and job.locked_at is null
            and
            -- include: parts/failed_at
            < now() - cast(:failed_for as float8) * interval '1 second'
        group by job.task_id
    ) as failed
    left join :schema._private_tasks as task on task.id = failed.task_id
where
    task.identifier is null
    or task.identifier not in (
        -- include: parts/own_tasks
    )
order by failed.number desc, 1;
