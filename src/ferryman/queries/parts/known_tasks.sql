-- needs: nothing
-- gives: a query
-- The identifiers of tasks that are in use although they may have no job: those of registered workers, of stored schedules
-- and of stored policies. Other workers may write anything into their metadata. Locks nothing.
select task.identifier
from
    :schema._private_workers as worker
    cross join lateral jsonb_array_elements_text(
        case jsonb_typeof(worker.metadata -> 'tasks') when 'array' then worker.metadata -> 'tasks' else '[]' end
    ) as task (identifier)
where length(task.identifier) between 1 and 128
union
select schedule.task_identifier from :schema._ferryman_schedules as schedule
union
select policy.task_identifier from :schema._ferryman_task_policies as policy
