-- How many tasks there are, and how many of them have no job. Reads all tasks and jobs. Locks nothing.
select count(*), count(*) filter (where used.id is null)
from
    :schema._private_tasks as task
    left join (select distinct job.task_id as id from :schema._private_jobs as job) as used on used.id = task.id;
